"""Checks a page of runs: its elements close in order, ids are unique and links lead to them, nothing comes from elsewhere, its policy
names the hash of its script, and it has exactly the given sections.

    run_page.py FILE SECTION..."""
import base64
import hashlib
import html.parser
import os
import re
import sys

EMPTY = {"meta", "path", "rect", "circle", "polyline"}  # elements without an end, or closed by "/>"


class Page(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.ids, self.links, self.sections, self.policy = [], [], [], [], ""
        self.text = {"script": "", "style": ""}

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        if tag not in EMPTY:
            self.open.append(tag)
        if "id" in values:
            self.ids.append(values["id"])
        if tag == "section":
            self.sections.append(values["id"])
        if tag == "meta" and values.get("http-equiv") == "Content-Security-Policy":
            self.policy = values["content"]
        for key, value in attributes:
            assert not re.match("on|style$|src$", key), f"attribute {key} of {tag}"
            if key == "href":
                assert value.startswith("#"), f"a link to {value}"
                self.links.append(value[1:])
            if key == "aria-labelledby":
                self.links += value.split()

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in EMPTY:
            self.handle_endtag(tag)

    def handle_endtag(self, tag):
        assert tag in EMPTY or self.open.pop() == tag, f"</{tag}> closes another element at {self.getpos()}"

    def handle_data(self, data):
        if self.open and self.open[-1] in self.text:
            self.text[self.open[-1]] += data


page = Page()
page.feed(open(sys.argv[1], encoding="utf-8").read())
page.close()
assert not page.open, f"open at the end: {page.open}"
assert len(set(page.ids)) == len(page.ids), "an id comes twice"
assert set(page.links) <= set(page.ids), f"links to nothing: {set(page.links) - set(page.ids)}"
for tag in ("script", "style"):
    digest = base64.b64encode(hashlib.sha256(page.text[tag].encode()).digest()).decode()
    assert f"{tag}-src 'sha256-{digest}'" in page.policy, f"the policy does not allow the {tag}: {page.policy}"
assert page.policy.startswith("default-src 'none'; "), page.policy
assert sorted(page.sections) == sorted(sys.argv[2:]), f"sections {page.sections}"
assert 20000 < os.path.getsize(sys.argv[1]) < 400000, f"{os.path.getsize(sys.argv[1])} bytes"
