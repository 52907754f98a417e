"""Chat templates as transformers renders them: the environment of its utils/chat_template_utils.py over jinja2, with a
clock that stands still. Needs jinja2 >= 3.1.6."""
import datetime
import json

import jinja2
import jinja2.ext
import jinja2.sandbox

NOW = 1721952000  # 26 July 2024


class Generation(jinja2.ext.Extension):
    """{% generation %}: where its text lies in what was rendered before it."""

    tags = {"generation"}

    def __init__(self, environment):
        super().__init__(environment)
        environment.extend(rendered=[], spans=[])

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_mark"), [], [], body).set_lineno(line)

    def _mark(self, caller):
        text = caller()
        begin = len("".join(self.environment.rendered).encode())
        self.environment.spans.append((begin, begin + len(text.encode())))
        return text


def refuse(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def environment():
    env = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = refuse
    env.globals["strftime_now"] = lambda form: datetime.datetime.fromtimestamp(NOW, datetime.timezone.utc).strftime(form)
    return env


def render(text, conversation):
    """(text, spans) of a conversation: an object with messages and other variables; spans in bytes."""
    env = environment()
    variables = {"tools": None, "documents": None, "add_generation_prompt": False, **conversation}
    for piece in env.from_string(text).generate(**variables):
        env.rendered.append(piece)
    return "".join(env.rendered), env.spans
