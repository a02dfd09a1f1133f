"""What a result says of its encoding."""

from pydantic import ValidationError
from pydantic_core import PydanticSerializationError

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
    copied = ("name", "family", "ranking", "year", "title", "link", "source", "lengths")
    try:
        record = EncodingRecord(
            **{field: getattr(info, field) for field in copied},
            stage_share=cls.stage.share if cls.stage else None,
            settings=settings(cls),
            source_sha256=source_hash(cls),
        )
        record.model_dump_json()
    except ValidationError as error:
        raise InputError(f"info of {info.name}: {first_fault(error)}") from None
    except PydanticSerializationError as error:
        raise InputError(f"settings of {info.name}: {error}; expected numbers, True, False or words") from None
    return record
