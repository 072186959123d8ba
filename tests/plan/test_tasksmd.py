"""tasks.md as a plan: sections, tickets, criteria, umbrellas, and what is only reported."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from gitbaton.model.ids import natural_key
from gitbaton.model.plan import Plan, Ticket
from gitbaton.plan.tasksmd import check_errors, read

SHAPES = Path(__file__).parent / "shapes"


def plan(text: str) -> Plan:
    return read(text.encode())


def ticket(found: Plan, key: str) -> Ticket:
    got = found.ticket(key)
    assert got is not None, [t.key for t in found.tickets]
    return got


def keys(found: Plan) -> list[str]:
    return [t.key for t in found.tickets]


def codes(found: Plan) -> list[tuple[int, str]]:
    return [(r.line, r.code) for r in found.warnings]


def boxes(found: Plan) -> tuple[int, int, int, int, int]:
    b = found.boxes
    return b.total, b.tickets, b.criteria, b.umbrellas, b.reported


# --- states ------------------------------------------------------------------------------------


def test_states_and_raw_markers() -> None:
    found = plan("## 1. A\n- [x] 1.1 a\n- [] 1.2 b\n- [~] 1.3 c\n- [-] 1.4 d\n- [X] 1.5 e\n")
    assert [(t.mark, t.marker) for t in found.tickets] == [
        ("done", "x"),
        ("open", " "),
        ("open", "~"),
        ("canceled", "-"),
        ("done", "X"),
    ]


def test_deferred_is_reported() -> None:
    found = plan("- [>] 1.1 later\n- [ ] 1.2 now\n")
    assert keys(found) == ["1.2"]
    assert boxes(found) == (2, 1, 0, 0, 1)
    assert (1, "deferred") in codes(found)


def test_struck_and_done_is_canceled_struck_and_open_reported() -> None:
    found = plan("- [x] ~~1.1 Copy~~ dropped\n- [ ] ~~1.2 Move~~\n- [ ] 1.3 Do\n")
    assert [(t.key, t.mark) for t in found.tickets] == [("1.1", "canceled"), ("1.3", "open")]
    assert codes(found) == [(2, "struck-open")]


def test_box_without_text_is_reported() -> None:
    found = plan("- [ ]\n- [ ] 1.1 a\n- [ ]\n  only a body\n")
    assert [t.body for t in found.tickets] == ["", "only a body"]
    assert codes(found) == [(1, "empty-box")]


# --- keys --------------------------------------------------------------------------------------


def test_letter_form_counts_when_most_of_the_section_have_one() -> None:
    found = plan(
        "## 1. A\n- [ ] 1.1 a\n- [ ] 1.2 b\n- [ ] S3 client\n"
        "## 2. B\n- [ ] T1 a\n  - [ ] step\n  - [ ] step 2\n- [ ] T2 b\n- [ ] c\n"
    )
    assert keys(found)[:2] == ["1.1", "1.2"]
    assert found.tickets[2].title == "S3 client"
    assert keys(found)[3:5] == ["T1", "T2"]


def test_half_is_not_most() -> None:
    assert "S3" not in keys(plan("- [ ] S3 client\n- [ ] other\n"))


def test_range_is_one_ticket_and_members_are_targets() -> None:
    found = plan("- [ ] 4.1–4.3 a\n- [ ] 4.5/4.6 b\n- [ ] 4.7 c (needs 4.2, 4.6, 4.5/4.6)\n")
    assert keys(found) == ["4.1-4.3", "4.5-4.6", "4.7"]
    assert ticket(found, "4.7").needs == ("4.1-4.3", "4.5-4.6")
    assert codes(found) == [(1, "range-key"), (2, "range-key")]


def test_key_of_a_text_without_key() -> None:
    text = "## 1. A\n- [ ] Run suite\n- [ ] Run suite\n- [ ] Other\n## 2. B\n- [ ] Run suite\n"
    found = plan(text)
    assert len(set(keys(found))) == 4
    assert all(len(key) == 8 for key in keys(found))
    assert [t.alias for t in found.tickets] == ["s1.1", "s1.2", "s1.3", "s2.1"]
    assert ticket(found, "s2.1").key == keys(found)[3]
    # neither ticks, nor what comes before, nor the section's number change it
    assert keys(plan("\n" + text.replace("[ ]", "[x]"))) == keys(found)
    assert keys(plan(text.replace("## 2. B", "## 7) B")))[3] == keys(found)[3]
    assert keys(plan(text.replace("Other", "Else")))[2] != keys(found)[2]
    assert keys(plan(text.replace("## 2. B", "## 2. C")))[3] != keys(found)[3]


def test_directive_does_not_change_the_key() -> None:
    assert keys(plan('- [ ] a <!-- baton: verify="x" -->\n')) == keys(plan("- [ ] a\n"))


def test_keyed_tickets_have_no_alias() -> None:
    assert plan("- [ ] 1.1 a\n").tickets[0].alias == ""


def test_keys_sort_naturally() -> None:
    assert sorted(["1.10", "1.9", "1.9a", "1.2"], key=natural_key) == ["1.2", "1.9", "1.9a", "1.10"]


def test_same_key_twice() -> None:
    found = plan("## 2. D\n- [x] 2.1 a\n- [ ] 2.2 b\n- [ ] 2.2 c\n- [ ] 2.2 d\n")
    assert keys(found) == ["2.1", "2.2", "2.2~2", "2.2~3"]
    assert codes(found) == [(4, "duplicate-key"), (5, "duplicate-key")]
    assert found.errors == ()
    assert [r.line for r in check_errors(found)] == [4, 5]


def test_same_key_twice_is_no_error_when_both_are_done() -> None:
    found = plan("- [x] 2.2 b\n- [x] 2.2 c\n- [ ] 2.3 c\n")
    assert codes(found) == [(2, "duplicate-key")]
    assert check_errors(found) == ()


def test_key_under_a_section_of_another_number() -> None:
    found = plan("## 2. A\n- [ ] 3.1 a\n- [ ] 2.1 b\n- [ ] 2 c\n")
    assert codes(found) == [(2, "key-section")]


# --- sections ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("heading", "number"),
    [
        ("## 1. A", "1"),
        ("## 1) A", "1"),
        ("## 1 A", "1"),
        ("## Phase 1: A", "1"),
        ("## Phase 1：A", "1"),
        ("## Phase 1 - A", "1"),
        ("## 1。A", "1"),
        ("## 3b. A", "3b"),
        ("## 1.5 A", "1.5"),
        ("## **2. A**", "2"),
        ("## 阶段 2：A", "2"),
        ("## A. Setup", "A"),
        ("## Acceptance", ""),
        ("## OAuth 2 login", ""),
        ("## 2. A ##", "2"),
    ],
)
def test_section_numbers(heading: str, number: str) -> None:
    (section,) = plan(f"{heading}\n- [ ] a\n").sections
    assert (section.number, section.line) == (number, 1)


def test_only_headings_with_boxes_are_sections() -> None:
    found = plan("# T\n## Why\ntext\n## 1. A\n- [ ] 1.1 a\n## Notes\nmore\n## 2. B\n- [ ] 2.1 b\n")
    assert [s.title for s in found.sections] == ["1. A", "2. B"]
    assert found.sections[0].text == ""
    assert [t.section for t in found.tickets] == [0, 1]


def test_level_three_with_one_component_is_a_section_too() -> None:
    found = plan(
        "## 1. A\n- [ ] 1.1 a\n### 2. B\n- [ ] 2.1 b\n### Details\n- [ ] 2.2 c\n"
        "### 2.3 D\n- [ ] 2.3.1 d\n### Phase 3: E\n- [ ] 3.1 e\n"
    )
    assert [s.title for s in found.sections] == ["1. A", "2. B", "Phase 3: E"]
    assert [t.section for t in found.tickets] == [0, 1, 1, 1, 2]


def test_without_level_two_level_three() -> None:
    found = plan("# T\n### A\n- [ ] a\n### B\n- [ ] b\n")
    assert [s.title for s in found.sections] == ["A", "B"]


def test_without_any_the_file_is_one_section() -> None:
    found = plan("# Title\n- [ ] a\n#### X\n- [ ] b\n")
    assert [s.title for s in found.sections] == ["Title"]
    assert plan("- [ ] a\n").sections[0].title == ""


def test_boxes_above_the_first_section_form_their_own() -> None:
    found = plan("- [ ] first\n## 1. A\n- [ ] 1.1 a\n")
    assert [(s.title, s.line) for s in found.sections] == [("", 0), ("1. A", 2)]
    assert [t.level for t in found.tickets] == [0, 1]
    titled = plan("# T\n- [ ] first\n## 1. A\n- [ ] 1.1 a\n")
    assert [(s.title, s.line) for s in titled.sections] == [("T", 1), ("1. A", 3)]


def test_a_number_that_comes_again_is_a_new_section() -> None:
    found = plan("## 1. A\n- [ ] a\n## 2. B\n- [ ] b\n## 1. A\n- [ ] c\n")
    assert [s.number for s in found.sections] == ["1", "2", "1"]
    assert [t.section for t in found.tickets] == [0, 1, 2]


def test_underlined_headings() -> None:
    found = plan("Title\n=====\n\nOne\n---\n- [ ] a\n\nTwo\n---\n- [ ] b\n")
    assert [(s.title, s.line) for s in found.sections] == [("One", 4), ("Two", 8)]


def test_a_rule_below_text_is_no_heading_elsewhere() -> None:
    found = plan("## 1. A\n- [ ] a\n\nnote\n---\n- [ ] b\n")
    assert [s.title for s in found.sections] == ["1. A"]


def test_numbered_section_without_boxes_is_pointed_out() -> None:
    found = plan("## 1. A\n- [ ] a\n## 2. B\n- plain\n")
    assert codes(found) == [(3, "section-without-boxes")]


# --- headings as tickets -----------------------------------------------------------------------

HEADINGS = """\
## Phase 2: B

### Task 2.1: Reader
- **Owner**: me
- **Acceptance**:
  - [x] reads
  - [ ] fast

### Task 2.2: Writer
- [x] writes

### 2.3 Nothing
text

### 2.4 Group
- [ ] 2.4.1 keyed
"""


def test_heading_with_a_key_and_keyless_boxes_is_a_ticket() -> None:
    found = plan(HEADINGS)
    assert keys(found) == ["2.1", "2.2", "2.4.1"]
    first = ticket(found, "2.1")
    assert first.title == "Reader"
    assert first.body == "- **Owner**: me\n- **Acceptance**:"
    assert [(c.text, c.done) for c in first.criteria] == [("reads", True), ("fast", False)]
    assert (first.mark, first.boxes, first.line) == ("open", (6, 7), 3)
    assert ticket(found, "2.2").mark == "done"
    assert boxes(found) == (4, 1, 3, 0, 0)
    assert codes(found) == [(12, "heading-without-boxes")]


def test_single_number_at_level_three_after_task_is_a_ticket() -> None:
    found = plan("## A\n### Task 1: Do\n- [ ] step\n### Task 2: Go\n- [ ] step\n")
    assert keys(found) == ["1", "2"]
    assert len(found.sections) == 1


def test_nested_boxes_of_a_heading_ticket_are_criteria() -> None:
    found = plan("## A\n### 1.1 Do\n- [x] a\n  - [ ] b\n")
    assert [c.text for c in ticket(found, "1.1").criteria] == ["a", "b"]
    assert found.warnings == ()


def test_inner_heading_ticket() -> None:
    found = plan("## A\n### 1.1 Outer\n- [ ] a\n#### 1.1.1 Inner\n- [ ] b\n##### Note\ntext\n")
    assert [(t.key, [c.text for c in t.criteria]) for t in found.tickets] == [
        ("1.1", ["a"]),
        ("1.1.1", ["b"]),
    ]
    assert ticket(found, "1.1.1").body == "##### Note\ntext"


def test_letter_form_of_a_heading() -> None:
    assert keys(plan("## A\n### T1 Do\n- [ ] a\n### T2 Go\n- [ ] b\n")) == ["T1", "T2"]
    found = plan("## A\n### S3 client\n- [ ] a\n### Rest\n- [ ] b\n")
    assert [t.title for t in found.tickets] == ["a", "b"]


def test_struck_heading() -> None:
    done = plan("## A\n### ~~1.1 Gone~~\n- [x] a\n### 1.2 Go\n- [ ] b\n")
    assert ticket(done, "1.1").mark == "canceled"
    waiting = plan("## A\n### ~~1.1 Gone~~\n- [ ] a\n### 1.2 Go\n- [ ] b\n")
    assert keys(waiting) == ["1.2"]
    assert boxes(waiting) == (2, 0, 1, 0, 1)


# --- children ----------------------------------------------------------------------------------


def test_indented_box_with_a_key_is_a_ticket_and_its_parent_an_umbrella() -> None:
    found = plan("- [ ] 1 All\n  - [x] 1.1 a\n  - [ ] sibling\n- [ ] 2 Rest\n")
    assert [t.title for t in found.tickets] == ["a", "sibling", "Rest"]
    (umbrella,) = found.umbrellas
    assert umbrella.key == "1"
    assert umbrella.children == (found.tickets[0].key, found.tickets[1].key)
    assert found.tickets[0].umbrellas == ("1",)
    assert boxes(found) == (4, 3, 0, 1, 0)


def test_umbrellas_nest() -> None:
    found = plan("- [ ] 1 A\n  - [ ] 1.1 B\n    - [ ] 1.1.1 C\n      - [ ] step\n  - [ ] 1.2 D\n")
    assert [u.key for u in found.umbrellas] == ["1", "1.1"]
    assert found.umbrellas[0].children == ("1.1", "1.2")
    assert ticket(found, "1.1.1").umbrellas == ("1", "1.1")
    assert [c.text for c in ticket(found, "1.1.1").criteria] == ["step"]


def test_other_indented_boxes_are_criteria() -> None:
    found = plan("- [ ] 1.1 a\n  - [x] b\n    - [ ] c\n  - [-] d\n- [ ] 1.2 e\n")
    assert [(c.text, c.done) for c in ticket(found, "1.1").criteria] == [
        ("b", True),
        ("c", False),
        ("d", True),
    ]
    assert ticket(found, "1.1").boxes == (1, 2, 3)


def test_open_box_below_a_done_one_is_a_ticket() -> None:
    found = plan((SHAPES / "01-nested-checkbox.md").read_text())
    assert [t.title for t in found.tickets] == ["Build cache", "add eviction", "Wire cache"]
    assert [c.text for c in found.tickets[0].criteria] == ["create table"]
    assert codes(found) == [(5, "open-below-done")]


def test_open_ticket_below_a_done_umbrella_is_pointed_out() -> None:
    found = plan("- [x] 1 A\n  - [ ] 1.1 a\n  - [x] 1.2 b\n")
    assert [t.mark for t in found.tickets] == ["open", "done"]
    assert codes(found) == [(2, "open-below-done")]


def test_box_under_a_plain_bullet_belongs_to_the_section() -> None:
    found = plan("## A\n- plain\n  - [ ] 1.1 a\n    - [ ] step\n  - [ ] 1.2 b\n")
    assert keys(found) == ["1.1", "1.2"]
    assert found.umbrellas == ()
    assert len(ticket(found, "1.1").criteria) == 1


def test_below_a_deferred_box_all_is_reported() -> None:
    found = plan("- [>] 1 A\n  - [ ] 1.1 a\n  - [ ] b\n- [ ] 2 B\n")
    assert keys(found) == ["2"]
    assert boxes(found) == (4, 1, 0, 0, 3)


def test_a_box_whose_only_keyed_child_is_deferred_stays_a_ticket() -> None:
    found = plan("- [ ] 1 A\n  - [>] 1.1 a\n")
    assert keys(found) == ["1"]
    assert boxes(found) == (2, 1, 0, 0, 1)


def test_indentation_by_tab_and_by_one_space() -> None:
    found = plan("- [ ] 1.1 a\n\t- [ ] step\n - [ ] 1.2 b\n")
    assert keys(found) == ["1.1", "1.2"]
    assert len(ticket(found, "1.1").criteria) == 1


def test_text_at_the_margin_after_a_blank_line_ends_a_list() -> None:
    found = plan("- [ ] 1.1 a\n\nAcceptance:\n\n  - [ ] 1.1.1 b\n")
    assert keys(found) == ["1.1", "1.1.1"]
    assert found.umbrellas == ()


# --- text --------------------------------------------------------------------------------------


def test_body_is_wrapped_lines_and_plain_bullets() -> None:
    found = plan((SHAPES / "13-detail-lines.md").read_text())
    assert ticket(found, "1.1").title == "Add retry to the"
    assert ticket(found, "1.1").body == ("upload client\n- Accept: three tries\n- (depends on 1.3)")
    assert ticket(found, "1.2").body == ""


def test_lazy_lines_belong_to_the_box_and_prose_to_the_section() -> None:
    found = plan(
        "## 1. A\nIntro.\n\n- [ ] 1.1 a\nlazy\n\n  second paragraph\n\n  ```\n  code\n  ```\n\n"
        "Outro.\n### Sub\n- plain\n- [ ] 1.2 b\n"
    )
    assert ticket(found, "1.1").body == "lazy\n\nsecond paragraph\n\n```\ncode\n```"
    assert found.sections[0].text == "Intro.\n\nOutro.\n### Sub\n- plain"


def test_text_below_a_criterion_belongs_to_it() -> None:
    found = plan("- [ ] 1.1 a\n  - [ ] b\n    more\n  note\n")
    assert ticket(found, "1.1").criteria[0].text == "b\nmore\nnote"


# --- what is no work ---------------------------------------------------------------------------


def test_fences_and_comments() -> None:
    found = plan((SHAPES / "14-code-and-comment.md").read_text())
    assert keys(found) == ["1.1"]
    assert boxes(found) == (3, 1, 0, 0, 2)
    assert codes(found) == [(6, "in-fence"), (12, "in-comment")]


def test_a_fence_that_never_closes_is_none() -> None:
    found = plan("## A\n```\n- [ ] 1.1 a\n## B\n- [ ] 2.1 b\n")
    assert keys(found) == ["1.1", "2.1"]


def test_fences_close_as_in_markdown() -> None:
    text = "````\n```\n- [ ] 1.1 a\n````\n- [ ] 1.2 b\n~~~ md\n- [ ] 1.3 c\n~~~\n"
    assert keys(plan(text)) == ["1.2"]
    assert keys(plan("```not`a fence\n- [ ] 1.1 a\n```\n- [ ] 1.2 b\n```\n")) == ["1.1"]
    assert keys(plan("- ```sh\n  - [ ] 1.1 a\n  ```\n- [ ] 1.2 b\n")) == ["1.2"]


def test_a_comment_that_never_closes_is_none() -> None:
    assert keys(plan("<!-- oops\n- [ ] 1.1 a\n")) == ["1.1"]
    assert keys(plan("see `<!--`\n- [ ] 1.1 a\n-->\n")) == ["1.1"]


def test_headings_in_comments_are_none() -> None:
    found = plan("<!--\n## 1. Old\n-->\n- [ ] a\n## 2. B\n- [ ] b\n")
    assert [s.title for s in found.sections] == ["", "2. B"]


def test_front_matter() -> None:
    found = plan("---\n# note: x\na: b\n---\n- [ ] 1.1 a\n")
    assert found.sections[0].title == ""
    assert keys(plan("---\n\n## A\n- [ ] 1.1 a\n---\n- [ ] 1.2 b\n")) == ["1.1", "1.2"]


def test_lines_that_almost_are_boxes_are_pointed_out() -> None:
    found = plan("- [ ] 1.1 a\n\n[ ] 1.2 b\n> - [ ] 1.3 c\n")
    assert codes(found) == [(3, "no-bullet"), (4, "no-bullet")]


def test_empty_plan_names_the_headings() -> None:
    found = plan("# Tasks\n## Phase 1: A\n### 1.1 B\n- plain\n")
    (error,) = found.errors
    assert error.code == "plan-empty"
    assert "## Phase 1: A" in error.message
    assert "### 1.1 B" in error.message
    assert plan("").errors[0].code == "plan-empty"


def test_only_reported_boxes_are_an_empty_plan() -> None:
    found = plan("- [>] later\n")
    assert found.errors[0].code == "plan-empty"
    assert found.boxes.total == 1


# --- bytes -------------------------------------------------------------------------------------


def test_line_ends_of_every_kind() -> None:
    found = read((SHAPES / "16-bytes.md").read_bytes())
    assert keys(found) == ["1.1.1", "1.2", "1.3", "1.4"]
    assert [u.key for u in found.umbrellas] == ["1.1"]
    assert keys(read(b"## 1. A\r- [ ] 1.1 a\r\r- [ ] 1.2 b")) == ["1.1", "1.2"]


def test_other_separators_do_not_end_lines() -> None:
    found = read("- [ ] 1.1 a\u2028b\x0bc\x85d\n".encode())
    assert found.tickets[0].title == "a\u2028b\x0bc\x85d"


def test_invalid_utf8_loads_and_encodes() -> None:
    found = read(b"## 1. \xff\n- [ ] 1.1 caf\xe9 \xed\xa0\x80\n- [\xfe] b\n")
    assert found.tickets[0].title.startswith("caf\ufffd")
    assert found.tickets[1].marker == "\ufffd"
    assert msgspec.json.decode(msgspec.json.encode(found), type=Plan) == found
    assert [line for line, code in codes(found) if code == "not-utf8"] == [1, 2, 3]


# --- digest ------------------------------------------------------------------------------------


def test_digest_is_bound_to_text_not_to_ticks() -> None:
    text = "- [ ] 1.1 a\n  body\n  - [ ] b\n"
    digest = plan(text).tickets[0].digest
    assert plan(text.replace("[ ]", "[x]")).tickets[0].digest == digest
    for old, new in (("1.1 a", "1.1 c"), ("body", "other"), ("] b", "] d"), ("1.1", "1.2")):
        assert plan(text.replace(old, new)).tickets[0].digest != digest


@pytest.mark.parametrize("path", sorted(SHAPES.glob("*.md")), ids=lambda p: p.stem)
def test_shapes_load(path: Path) -> None:
    found = read(path.read_bytes())
    assert found.errors == ()
    assert found.boxes.total == sum(boxes(found)[1:])
    assert found.boxes.tickets == len(found.tickets)
