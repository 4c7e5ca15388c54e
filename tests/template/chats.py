"""Chat templates in the styles that public models use, written for these tests, and random conversations to put through
them."""

CHATML = """\
{%- if messages[0]['role'] != 'system' -%}
<|begin|>system
You answer questions.<|end|>
{% endif -%}
{%- for message in messages %}
<|begin|>{{ message['role'] }}
{{ message['content'] | trim }}<|end|>
{% endfor %}
{%- if add_generation_prompt %}<|begin|>assistant
{% endif %}"""

BRACKETS = """\
{%- if messages and messages[0].role == 'system' -%}
    {%- set system = messages[0].content | trim -%}
    {%- set turns = messages[1:] -%}
{%- else -%}
    {%- set turns = messages -%}
{%- endif -%}
{%- for turn in turns -%}
    {%- if turn.role not in ['user', 'assistant', 'tool'] -%}
        {{- raise_exception('Unknown role: ' ~ turn.role) -}}
    {%- endif -%}
    {%- if (turn.role == 'user') != (loop.index0 % 2 == 0) and strict is defined -%}
        {{- raise_exception('Roles must alternate user/assistant/user/assistant/...') -}}
    {%- endif -%}
    {%- if turn.role == 'user' -%}
        {{- bos_token ~ '[INST] ' -}}
        {%- if loop.first and system is defined -%}
            {{- '<<SYS>>\\n' ~ system ~ '\\n<</SYS>>\\n\\n' -}}
        {%- endif -%}
        {{- turn.content | string | trim ~ ' [/INST]' -}}
    {%- elif turn.role == 'assistant' and turn.content -%}
        {{- ' ' + turn.content|string|trim + ' ' + eos_token -}}
    {%- endif -%}
{%- endfor -%}"""

HEADERS = """\
{{- bos_token }}
{%- if tools is not defined or tools is none %}
    {%- set tools = [] %}
{%- endif %}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|string|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|head|>system<|/head|>\\n\\n" }}
{%- if tools|length > 0 %}
    {{- "You can call these functions. Answer a call as JSON.\\n\\n" }}
    {%- for t in tools %}
        {{- t | tojson(indent=4) }}
        {{- "\\n\\n" }}
    {%- endfor %}
{%- endif %}
{{- system_message }}
{{- "<|eot|>" }}
{%- for message in messages %}
    {%- if not (message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|head|>' + message['role'] + '<|/head|>\\n\\n' + message['content'] | default('', true) | string | trim + '<|eot|>' }}
    {%- elif 'tool_calls' in message and message.tool_calls %}
        {%- if message.tool_calls|length != 1 %}
            {{- raise_exception("Only one call at a time") }}
        {%- endif %}
        {%- set call = message.tool_calls[0].function %}
        {{- '<|head|>assistant<|/head|>\\n\\n' -}}
        {{- '{"name": "' + call.name + '", ' }}
        {{- '"parameters": ' }}
        {{- call.arguments | tojson }}
        {{- "}" }}
        {{- "<|eot|>" }}
    {%- elif message.role == "tool" %}
        {{- "<|head|>tool<|/head|>\\n\\n" }}
        {%- if message.content is mapping or message.content is iterable and message.content is not string %}
            {{- message.content | tojson }}
        {%- else %}
            {{- message.content }}
        {%- endif %}
        {{- "<|eot|>" }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|head|>assistant<|/head|>\\n\\n' }}
{%- endif %}
"""

TOOLS = """\
{%- macro describe(schema, depth=0) -%}
    {%- if schema is mapping and 'type' in schema -%}
        {%- if schema.type == 'object' and schema.properties is defined -%}
            {{- '{' -}}
            {%- for key, value in schema.properties | dictsort -%}
                {{- key }}: {{ describe(value, depth + 1) }}
                {%- if not loop.last %}, {% endif -%}
            {%- endfor -%}
            {{- '}' -}}
        {%- elif schema.type == 'array' -%}
            {{- 'list[' ~ describe(schema['items'] if schema['items'] is defined else {'type': 'any'}) ~ ']' -}}
        {%- elif schema.enum is defined -%}
            {{- schema.enum | map('tojson') | join(' | ') -}}
        {%- else -%}
            {{- schema.type | upper -}}
        {%- endif -%}
    {%- else -%}
        {{- schema | tojson -}}
    {%- endif -%}
{%- endmacro -%}
{%- set ns = namespace(last_user=-1, thinking=false, calls=0) -%}
{%- for m in messages[::-1] -%}
    {%- set index = (messages | length - 1) - loop.index0 -%}
    {%- if ns.last_user < 0 and m.role == 'user' and m.content is string and not m.content.startswith('<result>') -%}
        {%- set ns.last_user = index -%}
    {%- endif -%}
{%- endfor -%}
{%- if tools %}
    {{- '<|start|>system\\n# Tools\\n' }}
    {%- for tool in tools %}
        {%- set f = tool.function if tool.function is defined else tool %}
        {{- '- ' ~ f.name ~ '(' ~ describe(f.parameters) ~ ')' }}
        {%- if f.description %} {{ f.description | trim | replace('\\n', ' ') }}{% endif %}
        {{- '\\n' }}
    {%- endfor %}
    {{- '<|stop|>\\n' }}
{%- endif %}
{%- for m in messages %}
    {%- set content = m.content if m.content is string else (m.content or []) | selectattr('type', 'equalto', 'text') | map(attribute='text') | join('\\n') if m.content is not mapping and m.content is iterable else '' %}
    {%- if m.role == 'assistant' %}
        {%- set thoughts = '' %}
        {%- if m.reasoning is string %}
            {%- set thoughts = m.reasoning %}
        {%- elif '</think>' in content %}
            {%- set thoughts = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
            {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
        {%- endif %}
        {{- '<|start|>assistant\\n' }}
        {%- if loop.index0 > ns.last_user and (loop.last or thoughts) %}
            {{- '<think>\\n' ~ thoughts.strip('\\n') ~ '\\n</think>\\n\\n' }}
        {%- endif %}
        {%- generation %}{{ content.lstrip() }}{% endgeneration %}
        {%- for call in m.tool_calls or [] %}
            {%- set call = call.function if call.function else call %}
            {%- set ns.calls = ns.calls + 1 %}
            {{- '\\n<call id="' ~ '%03d' % ns.calls ~ '">\\n{"name": "' }}
            {{- call.name }}
            {{- '", "arguments": ' }}
            {%- if call.arguments is string %}{{ call.arguments }}{% else %}{{ call.arguments | tojson }}{% endif %}
            {{- '}\\n</call>' }}
        {%- endfor %}
        {{- '<|stop|>\\n' }}
    {%- elif m.role == 'tool' %}
        {%- if loop.previtem is not defined or loop.previtem.role != 'tool' %}{{ '<|start|>user' }}{% endif %}
        {{- '\\n<result>\\n' ~ content ~ '\\n</result>' }}
        {%- if loop.last or loop.nextitem.role != 'tool' %}{{ '<|stop|>\\n' }}{% endif %}
    {%- else %}
        {{- '<|start|>' ~ m.role ~ '\\n' ~ content ~ '<|stop|>' ~ '\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}"""

TURNS = """\
{{ bos_token }}
{%- if messages[0]['role'] == 'system' -%}
    {%- if messages[0]['content'] is string -%}
        {%- set prefix = messages[0]['content'] + '\\n\\n' -%}
    {%- else -%}
        {%- set prefix = messages[0]['content'][0]['text'] + '\\n\\n' -%}
    {%- endif -%}
    {%- set rest = messages[1:] -%}
{%- else -%}
    {%- set prefix = "" -%}
    {%- set rest = messages -%}
{%- endif -%}
{%- for message in rest -%}
    {%- if (message['role'] == 'assistant') -%}
        {%- set role = "model" -%}
    {%- else -%}
        {%- set role = message['role'] -%}
    {%- endif -%}
    {{ '<turn>' + role + '\\n' + (prefix if loop.first else "") }}
    {%- if message['content'] is string -%}
        {{ message['content'] | trim }}
    {%- elif message['content'] is iterable -%}
        {%- for item in message['content'] -%}
            {%- if item['type'] == 'image' -%}
                {{ '<image>' }}
            {%- elif item['type'] == 'text' -%}
                {{ item['text'] | trim }}
            {%- endif -%}
        {%- endfor -%}
    {%- else -%}
        {{ raise_exception("Invalid content type") }}
    {%- endif -%}
    {{ '</turn>\\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{'<turn>model\\n'}}
{%- endif -%}
"""

STYLES = {"chatml": CHATML, "brackets": BRACKETS, "headers": HEADERS, "tools": TOOLS, "turns": TURNS}

PIECES = [
    "Hello", " there", "\n", "  ", "žluťoučký", "日本語", "👩‍👧", "<think>\nwell\n</think>\nyes", "'", '"', "\\", "{{ no }}", "{% x %}",
    "<|end|>", "\t", "1.5", "ß", "\u2028", "\x7f", "<result>", "é\u0301", "&amp;", "%s", "",
]  # fmt: skip


def random_text(rng):
    return "".join(rng.choice(PIECES) for _ in range(rng.randrange(6)))


def random_json(rng, depth=0):
    kind = rng.randrange(8 if depth < 3 else 6)
    if kind == 0:
        return rng.choice([0, 1, -1, 42, 2**53, -(2**63), 2**63 - 1])
    if kind == 1:
        return rng.choice([0.0, 1.0, -0.5, 1e20, 1e-7, 3.141592653589793, 1e16, 123456789.125])
    if kind == 2:
        return rng.choice([True, False, None])
    if kind <= 5:
        return random_text(rng)
    if kind == 6:
        return [random_json(rng, depth + 1) for _ in range(rng.randrange(4))]
    return {random_text(rng) or "k": random_json(rng, depth + 1) for _ in range(rng.randrange(4))}


def random_content(rng):
    kind = rng.randrange(8)
    if kind == 0:
        return None
    if kind == 1:
        return [rng.choice([{"type": "text", "text": random_text(rng)}, {"type": "image"}]) for _ in range(rng.randrange(1, 4))]
    return random_text(rng)


def random_schema(rng, depth=0):
    kind = rng.choice(["string", "number", "boolean", "array", "object"] if depth < 3 else ["string", "integer"])
    if kind == "object":
        return {"type": kind, "properties": {rng.choice("abcXYZ") * 2: random_schema(rng, depth + 1) for _ in range(rng.randrange(4))}}
    if kind == "array":
        return {"type": kind, **({"items": random_schema(rng, depth + 1)} if rng.random() < 0.7 else {})}
    if kind == "string" and rng.random() < 0.4:
        return {"type": kind, "enum": [random_text(rng) for _ in range(2)]}
    return {"type": kind}


def random_tool(rng):
    tool = {"name": rng.choice(["weather", "search", "počasí"]), "parameters": random_schema(rng)}
    if rng.random() < 0.7:
        tool["description"] = random_text(rng)
    return {"type": "function", "function": tool} if rng.random() < 0.7 else tool


def random_call(rng):
    arguments = random_json(rng) if rng.random() < 0.8 else random_text(rng)
    call = {"name": "weather", "arguments": arguments}
    return {"id": "c1", "type": "function", "function": call} if rng.random() < 0.8 else call


def random_messages(rng):
    messages = [{"role": "system", "content": random_content(rng)}] if rng.random() < 0.5 else []
    for index in range(rng.randrange(1, 7)):
        role = "user" if index % 2 == 0 else "assistant"
        if rng.random() < 0.2:
            role = rng.choice(["tool", "system", "user", "assistant"])
        message = {"role": role, "content": random_content(rng)}
        if role == "assistant" and rng.random() < 0.4:
            message["tool_calls"] = [random_call(rng) for _ in range(rng.randrange(3))]
        if role == "assistant" and rng.random() < 0.2:
            message["reasoning"] = random_text(rng)
        if rng.random() < 0.05:
            del message["content"]
        messages.append(message)
    return messages


def random_request(rng):
    variables = {}
    if rng.random() < 0.5:
        variables["tools"] = [random_tool(rng) for _ in range(rng.randrange(3))] if rng.random() < 0.9 else None
    if rng.random() < 0.3:
        variables["enable_thinking"] = rng.random() < 0.5
    if rng.random() < 0.2:
        variables["strict"] = True
    if rng.random() < 0.5:
        variables["now"] = f"20{rng.randrange(10, 99)}-0{rng.randrange(1, 10)}-{rng.randrange(10, 29)}"
    return {
        "messages": random_messages(rng),
        "variables": variables,
        "bos_token": rng.choice(["", "<s>"]),
        "eos_token": rng.choice(["", "</s>"]),
        "add_generation_prompt": rng.random() < 0.5,
    }
