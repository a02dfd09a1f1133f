"""What a result says of its encoding."""

from pydantic import ValidationError

from bench.encodings import Encoding, settings
from bench.result import EncodingRecord, first_fault
from tasks import InputError

from .source_hash import source_hash


def encoding_record(cls: type[Encoding]) -> EncodingRecord:
    """What a result says of its encoding.

    Raises:
        InputError: a field of its ``info`` has a wrong type, or a setting has a value that JSON does not have.
    """
    info = cls.info
    try:
        return EncodingRecord(
            **{field: value for field, value in vars(info).items() if field in EncodingRecord.model_fields},
            stage_share=cls.stage.share if cls.stage else None,
            settings=settings(cls),
            source_sha256=source_hash(cls),
        )
    except ValidationError as error:
        raise InputError(f"info of {info.name}: {first_fault(error)}") from None
