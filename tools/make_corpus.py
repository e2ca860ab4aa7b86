#!/usr/bin/env python3
"""Makes clean English prose out of two Debian packages, for training: .cache/corpus/{austen,anarchism}.txt, all of it
again as {train,validation}.txt, and conversations about it as chats.jsonl. The same bytes at each run.

Form of the text files: UTF-8; a paragraph is one line; a blank line between paragraphs; documents (a chapter, a section)
are separated by a line that holds one form feed (U+000C) and nothing else. Every twentieth document is validation."""
import hashlib
import html
import html.parser
import json
import pathlib
import re
import struct
import sys
import zlib

ROOT = pathlib.Path(__file__).resolve().parents[1]
OUT = ROOT / ".cache" / "corpus"
AUSTEN = pathlib.Path("/usr/lib/R/site-library/janeaustenr/data")
ANARCHISM = pathlib.Path("/usr/share/doc/anarchism/html")
TITLES = {"emma": "Emma", "mansfieldpark": "Mansfield Park", "northangerabbey": "Northanger Abbey",
          "persuasion": "Persuasion", "prideprejudice": "Pride and Prejudice", "sensesensibility": "Sense and Sensibility"}
NO_PROSE = {"alinks", "arlinks", "biblio", "book", "contact", "index", "links", "new", "pdf", "translations"}


class RReader:
    """R's serialisation, format X (XDR), versions 2 and 3, as far as data sets of strings need it."""

    def __init__(self, data):
        self.data, self.at, self.seen = data, 2, []
        if data[:2] != b"X\n":
            raise ValueError("not an R serialisation in XDR form")
        version = self.integer()
        self.at += 8
        if version == 3:
            self.take(self.integer())  # the native encoding's name

    def take(self, count):
        if self.at + count > len(self.data):
            raise ValueError("the R serialisation ends early")
        self.at += count
        return self.data[self.at - count:self.at]

    def integer(self):
        return struct.unpack(">i", self.take(4))[0]

    def item(self):
        flags = self.integer()
        kind, has_attributes, has_tag = flags & 255, flags >> 9 & 1, flags >> 10 & 1
        if kind == 254:  # NULL
            return None
        if kind == 255:  # a reference to an earlier symbol
            return self.seen[(flags >> 8 or self.integer()) - 1]
        if kind == 1:
            self.seen.append(self.item())
            return self.seen[-1]
        if kind == 2:  # a pair list: the rest of it follows in place
            pairs = []
            while kind == 2:
                if has_attributes:
                    self.item()
                tag = self.item() if has_tag else None
                pairs.append((tag, self.item()))
                flags = self.integer()
                kind, has_attributes, has_tag = flags & 255, flags >> 9 & 1, flags >> 10 & 1
            return pairs
        if kind == 9:  # one string, of this encoding
            length = self.integer()
            return None if length < 0 else self.take(length).decode("latin-1" if flags >> 14 & 1 else "utf-8")
        count = self.integer()
        if kind in (10, 13):
            value = [self.integer() for _ in range(count)]
        elif kind in (16, 19):
            value = [self.item() for _ in range(count)]
        else:
            raise ValueError(f"R type {kind} is not expected in a data set of text")
        if has_attributes:
            value = dict(self.item(), value=value)
        return value


def tidy(text):
    """White space and stray emphasis marks to what a printed page has."""
    text = re.sub(r"\s+", " ", text.replace("\u00ad", "").replace("\u00a0", " "))
    text = re.sub(r"(?<![A-Za-z0-9])_+|_+(?![A-Za-z0-9])", "", text)
    text = re.sub(r" +([,;:!?)\]]|\.(?! ?\.))", r"\1", text)
    return re.sub(r"([(\[]) +", r"\1", text).strip()


def austen():
    """[(title of the book, chapter's text)], the books in the order of their names."""
    index = RReader(zlib.decompress((AUSTEN / "Rdata.rdx").read_bytes(), 47)).item()  # 47: gzip or zlib
    fields = dict(zip(index["names"], index["value"]))
    places = dict(zip(fields["variables"]["names"], fields["variables"]["value"]))
    store = (AUSTEN / "Rdata.rdb").read_bytes()
    for name in sorted(TITLES):
        offset, length = places[name]
        size, = struct.unpack(">I", store[offset:offset + 4])
        data = zlib.decompress(store[offset + 4:offset + length])
        if len(data) != size:
            raise ValueError(f"{name}: {len(data)} bytes, its head says {size}")
        value = RReader(data).item()
        lines = value["value"] if isinstance(value, dict) else value
        chapter, paragraph = None, []
        for line in [*lines, "", "CHAPTER 0"]:
            heading = re.fullmatch(r"\s*(chapter\s+[ivxl0-9]+)\.?\s*", line, re.IGNORECASE)
            if line.strip() and not heading:
                paragraph.append(line)
                continue
            text = tidy(" ".join(paragraph))
            ornament = re.fullmatch(r"[\s*]*|(end of )?(the )?(volume|vol\.?)\s+\S+\.?|finis\.?|the end\.?|\[.*\]", text, re.IGNORECASE)
            paragraph = []
            if text and not ornament and chapter is not None:
                chapter.append(text)
            if heading:
                if chapter:
                    yield TITLES[name], "\n\n".join(chapter)
                chapter = []


class Prose(html.parser.HTMLParser):
    """Headings and paragraphs of a page; link lists, tables and navigation are left out."""

    SKIP = {"title", "table", "ul", "ol", "center", "script", "style"}
    BREAKS = {"p", "blockquote", "h1", "h2", "h3", "div", "hr", "dt"}

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.blocks, self.text, self.skipped, self.heading, self.ended = [], [], [], False, False

    def flush(self):
        text = tidy("".join(self.text))
        self.text = []
        if text:
            self.blocks.append((self.heading, text))

    def handle_starttag(self, tag, attributes):
        if tag == "div" and "book-navigation" in (dict(attributes).get("class") or ""):
            self.flush()
            self.ended = True
        if tag in self.SKIP:
            self.flush()
            self.skipped.append(tag)
        elif tag in self.BREAKS:
            self.flush()
            self.heading = tag in ("h1", "h2", "h3")
        elif tag == "br":
            self.text.append(" ")

    def handle_endtag(self, tag):
        if tag in self.skipped:
            while self.skipped.pop() != tag:
                pass
        elif tag in self.BREAKS:
            self.flush()
            self.heading = False

    def handle_data(self, data):
        if not self.ended and not self.skipped:
            self.text.append(data)


def is_prose(text):
    letters = sum(c.isalpha() or c == " " for c in text)
    return letters > 0.85 * len(text) and not re.search(r"https?:|www\.|@|\.html?\b|\.org\b|copyright|licen[cs]e v", text, re.IGNORECASE)


def anarchism():
    """[(section's heading, its text)] in the order of the files' names."""
    pages = sorted(ANARCHISM.glob("*.html"))
    for page in pages:
        if page.stem in NO_PROSE:
            continue
        reader = Prose()
        text = page.read_text(encoding="utf-8")
        title = re.search(r"<title>(.*?) \|", text)
        reader.feed(text)
        reader.flush()
        section = [tidy(html.unescape(title.group(1)))] if title else []
        for heading, block in [*reader.blocks, (True, "")]:
            if not heading:
                if is_prose(block) and len(block) > 40:
                    section.append(block)
                continue
            if sum(map(len, section[1:])) > 600:
                yield section[0], "\n\n".join(section)
            section = [block]


def pick(seed, choices):
    """A choice that depends on the text alone, not on the order or on Python's generator."""
    return choices[int.from_bytes(hashlib.sha256(seed.encode()).digest()[:8], "big") % len(choices)]


def halves(text):
    """A paragraph cut at an end of a sentence near its middle, or None; "Mr. Knightley" is no such end."""
    ends = [m.end() for m in re.finditer(r"(?<!\bMr)(?<!\bMrs)(?<!\bDr)(?<!\bSt)(?<!\bCol)[.!?]+[\"']?(?= [A-Z\"'])", text)]
    ends = [end for end in ends if 60 < end < len(text) - 60]
    if not ends:
        return None
    cut = min(ends, key=lambda end: abs(end - len(text) // 2))
    return text[:cut], text[cut:].strip()


def conversations(books, sections):
    """About a thousand conversations; each answer stands in the text it was made from."""
    for at, (title, chapter) in enumerate(books):
        paragraphs = [p for p in chapter.split("\n\n") if 200 < len(p) < 900]
        for number, paragraph in enumerate(paragraphs[2:3] + paragraphs[9:10]):
            parts = halves(paragraph)
            if parts is None:
                continue
            first, rest = parts
            if (at + number) % 2 == 0:
                ask = pick(first, ["Continue this passage: ", "How does this go on? ", "What comes after these words? "])
                yield [("user", ask + first), ("assistant", rest)]
            else:
                ask = pick(first, ["Who wrote this? ", "Which novel is this from, and who wrote it? ", "Name the author and the book: "])
                yield [("user", ask + first), ("assistant", f"Jane Austen wrote it, in {title}."),
                       ("user", "How does the passage continue?"), ("assistant", rest)]
    for heading, section in sections[::2]:
        body = section.split("\n\n")[1:]
        question = re.sub(r"^([A-Z]\.)?[0-9.]*\s*", "", heading)
        answer = next((p for p in body if 150 < len(p) < 900 and p[-1] in ".?!"), None)
        if question.endswith("?") and answer:
            yield [("user", question), ("assistant", answer)]
        quotation = next((m for p in body for m in re.findall(r'"([^"\[\]]{120,400}[.])"', p)), None)
        if quotation:
            words = quotation.split(" ")
            yield [("system", "You complete quotations word for word."),
                   ("user", "Complete the quotation: \"" + " ".join(words[:len(words) // 2]) + "\""),
                   ("assistant", " ".join(words[len(words) // 2:]))]


def write(name, text):
    (OUT / name).write_text(text, encoding="utf-8", newline="\n")


def main():
    script = hashlib.sha256(pathlib.Path(__file__).read_bytes()).hexdigest()
    stamp = OUT / "made-by"
    if stamp.exists() and stamp.read_text() == script:
        return
    for folder, package in ((AUSTEN, "r-cran-janeaustenr"), (ANARCHISM, "anarchism")):
        if not folder.is_dir():
            sys.exit(f"make_corpus: {folder} is not there: is the Debian package {package} installed, and does this system "
                     "keep /usr/share/doc (dpkg's path-exclude)?")
    OUT.mkdir(parents=True, exist_ok=True)
    books, sections = list(austen()), list(anarchism())
    separator = "\n\f\n"
    for name, documents in (("austen.txt", books), ("anarchism.txt", sections)):
        write(name, separator.join(text for _, text in documents) + "\n")
    texts = [text for _, text in books + sections]
    write("train.txt", separator.join(t for i, t in enumerate(texts) if i % 20 != 19) + "\n")
    write("validation.txt", separator.join(t for i, t in enumerate(texts) if i % 20 == 19) + "\n")
    chats = ({"messages": [{"role": role, "content": content} for role, content in chat]} for chat in conversations(books, sections))
    write("chats.jsonl", "".join(json.dumps(chat, ensure_ascii=False) + "\n" for chat in chats))
    size = sum((OUT / name).stat().st_size for name in ("austen.txt", "anarchism.txt"))
    if size < 5_000_000:
        sys.exit(f"make_corpus: only {size} bytes of text came out; at least 5 MB are expected")
    stamp.write_text(script)
    print(f"setup: {size / 1e6:.1f} MB of text, {len(texts)} documents, in .cache/corpus")


if __name__ == "__main__":
    main()
