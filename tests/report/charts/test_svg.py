"""Only a picture comes out of `clean`, whatever went in."""

import xml.etree.ElementTree as ET

from mqlab.report.charts import svg

START = '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" width="10" height="10">'


def clean(inside: str) -> str:
    return svg.clean(f"{START}{inside}</svg>", "pic", "what it shows")


def test_scripts_and_foreign_elements_are_left_out() -> None:
    cleaned = clean(
        "<script>alert(1)</script><foreignObject><p>hello</p></foreignObject><image href='x'/><style>*{}</style>"
        "<a href='javascript:alert(1)'><text>click</text></a><text>kept</text>"
    )
    assert [element.tag for element in ET.fromstring(cleaned)] == ["text"]
    assert "alert" not in cleaned


def test_handlers_links_and_styles_are_left_out() -> None:
    cleaned = clean(
        '<rect onclick="x()" style="fill:url(http://a)" href="b" xlink:href="c" fill="url(http://d)" x="1"/>'
    )
    assert ET.fromstring(cleaned)[0].attrib == {"x": "1"}


def test_ids_are_the_pictures_own() -> None:
    cleaned = clean('<clipPath id="c1"/><g clip-path="url(#c1)"/>')
    clip, group = ET.fromstring(cleaned)
    assert clip.get("id") == "pic-c1"
    assert group.get("clip-path") == "url(#pic-c1)"


def test_words_stay_words() -> None:
    (text,) = ET.fromstring(clean('<text aria-label="a mark">&lt;script&gt; &amp; co</text>'))
    assert text.text == "<script> & co"
    assert text.attrib == {}, "a picture has one description: that of the whole"


def test_positions_are_rounded() -> None:
    cleaned = clean('<path d="M1.23456,7L0.5,100.125" transform="translate(3.999,4)"/><text font-size="11.25">a</text>')
    path, text = ET.fromstring(cleaned)
    assert path.attrib == {"d": "M1.2,7L0.5,100.1", "transform": "translate(3.9,4)"}
    assert text.get("font-size") == "11.25"


def test_what_is_not_shown_is_left_out() -> None:
    cleaned = clean('<text opacity="0">hidden</text><path display="none" d=""/><text opacity="1">shown</text>')
    assert [element.text for element in ET.fromstring(cleaned)] == ["shown"]


def test_description() -> None:
    root = ET.fromstring(clean(""))
    assert (root.get("role"), root.get("aria-label")) == ("img", "what it shows")


def test_a_file_stands_alone() -> None:
    root = ET.fromstring(svg.as_file(clean("<text>kept</text>")))
    assert root.tag == f"{{{svg.NAMESPACE}}}svg"
    assert [element.tag.rpartition("}")[2] for element in root] == ["style", "text"]
