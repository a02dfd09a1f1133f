"""matplotlib's SVG made small and the same everywhere: text stays text, held to its width whatever font a reader has."""

import io
import re
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

if TYPE_CHECKING:
    from .plot import Page

SVG = "{http://www.w3.org/2000/svg}"
LINK = "{http://www.w3.org/1999/xlink}href"
FONTS = "'DejaVu Sans',Verdana,sans-serif"
"""Verdana is the relative of DejaVu Sans on Windows and macOS: its letters are as wide."""
NUMBER = re.compile(r"-?\d+\.\d+(?:e-?\d+)?")
PIECE = re.compile(r"M(-?[\d.]+) (-?[\d.]+)L(-?[\d.]+) \2(?=M|$)")
"""A path's subpath that is one horizontal line."""


def svg(page: "Page") -> bytes:
    """SVG bytes that hang on the page alone: no date, no version of the library, coordinates to a tenth of a point."""
    buffer = io.StringIO()
    page.figure.savefig(buffer, format="svg")
    root = ET.fromstring(buffer.getvalue())
    for metadata in root.findall(f"{SVG}metadata"):  # date and version
        root.remove(metadata)
    for element in list(root.iter()):
        element.tail = None
        if element.tag == f"{SVG}text":
            hold(element)
        elif element.text and not element.text.strip():
            element.text = None
        if "d" in element.attrib:
            element.set("d", shorter(element.attrib["d"]))
        if element.tag == f"{SVG}g":
            element.attrib.pop("id", None)
        if LINK in element.attrib:
            element.set("href", element.attrib.pop(LINK))
        for name in ("x", "y", "width", "height", "transform"):
            if name in element.attrib:
                element.set(name, rounded(element.attrib[name]))
    flatten(root)
    root.set("font-family", FONTS)
    classes(root)
    title = ET.Element(f"{SVG}title")
    title.text = page.title
    root.insert(0, title)
    ET.register_namespace("", SVG[1:-1])
    return ET.tostring(root, encoding="utf-8") + b"\n"


def hold(text: ET.Element) -> None:
    """Hold a text to the width that it was laid out with."""
    from .plot import text_width

    style = dict(re.findall(r"([a-z-]+): ([^;]+)", text.attrib["style"]))
    size, bold = float(style["font-size"].removesuffix("px")), style.get("font-weight") == "700"
    style.pop("font-family")
    text.set("style", "; ".join(f"{name}: {value}" for name, value in style.items()))
    if len(text.text or "") > 2:
        text.set("textLength", rounded(f"{text_width(text.text or '', size, bold):.6f}"))
    transform = text.attrib.get("transform", "")
    if place := re.fullmatch(r"translate\((\S+) (\S+)\)", transform):
        text.set("x", place[1])
        text.set("y", place[2])
    if place or transform.startswith("rotate(-0 "):
        text.attrib.pop("transform")


def flatten(element: ET.Element) -> None:
    """Replace every group that says nothing by what is in it."""

    def parts(of: ET.Element) -> Iterator[ET.Element]:
        for child in of:
            if child.tag == f"{SVG}g" and not child.attrib:
                yield from parts(child)
            else:
                flatten(child)
                yield child

    element[:] = list(parts(element))


def classes(root: ET.Element) -> None:
    """Write every style that comes up more than once into the sheet, once."""
    counts = Counter(element.attrib["style"] for element in root.iter() if "style" in element.attrib)
    names = {style: f"s{i}" for i, (style, count) in enumerate(sorted(counts.items())) if count > 1}
    for element in root.iter():
        if element.attrib.get("style") in names:
            element.set("class", names[element.attrib.pop("style")])
    sheet = next(root.iter(f"{SVG}style"))
    rules = (f".{name}{{{style.replace(': ', ':').replace('; ', ';')}}}" for style, name in names.items())
    sheet.text = (sheet.text or "") + "".join(rules)


def rounded(text: str) -> str:
    return NUMBER.sub(lambda found: f"{round(float(found[0]), 1) + 0.0:g}", text)


def shorter(path: str) -> str:
    """A path in fewer bytes: one decimal, no blank that is not needed, and dots (see ``curves.dots``) by their width."""
    short = re.sub(r"\s*([A-Za-z])\s*", r"\1", " ".join(rounded(path).split()))
    return PIECE.sub(lambda m: f"M{m[1]} {m[2]}h{round(float(m[3]) - float(m[1]), 1) + 0.0:g}", short)
