"""More chat templates, written for these tests around the constructs of public ones: of models that think, that are told
the date, that call tools with identifiers or describe them as a programming language would."""

THINKING = """\
{%- set ns = namespace(first=true, in_tool=false, system='') -%}
{%- for m in messages -%}
    {%- if m['role'] == 'system' -%}
        {%- if ns.first -%}
            {%- set ns.system = ns.system + (m['content'] or '') -%}
            {%- set ns.first = false -%}
        {%- else -%}
            {%- set ns.system = ns.system + '\\n\\n' + (m['content'] | string) -%}
        {%- endif -%}
    {%- endif -%}
{%- endfor -%}
{{- bos_token }}{{ ns.system -}}
{%- for m in messages -%}
    {%- if m['role'] == 'user' -%}
        {%- set ns.in_tool = false -%}
        {{- '<|user|>' + (m['content'] if m['content'] is string else m['content'] | tojson) -}}
    {%- endif -%}
    {%- if m['role'] == 'assistant' and m.get('tool_calls') -%}
        {%- set ns.in_tool = false -%}
        {%- for call in m['tool_calls'] -%}
            {%- set f = call['function'] if 'function' in call else call -%}
            {%- if loop.first -%}
                {{- ('<|assistant|>' ~ (m['content'] or '')) + '<|calls|>' -}}
            {%- else -%}
                {{- '\\n' -}}
            {%- endif -%}
            {{- '<|call|>' + f['name'] + '\\n```json\\n' + (f['arguments'] | tojson if f['arguments'] is not string else f['arguments']) + '\\n```' -}}
        {%- endfor -%}
        {{- '<|end-calls|>' + eos_token -}}
    {%- elif m['role'] == 'assistant' -%}
        {%- set content = m['content'] | default('', true) | string -%}
        {%- if '</think>' in content -%}
            {%- set content = content.split('</think>')[-1] -%}
        {%- endif -%}
        {%- if ns.in_tool -%}{{- '<|end-outputs|>' + content + eos_token -}}{%- else -%}{{- '<|assistant|>' + content + eos_token -}}{%- endif -%}
    {%- endif -%}
    {%- if m['role'] == 'tool' -%}
        {{- ('' if ns.in_tool else '<|outputs|>') + '<|output|>' ~ m['content'] -}}
        {%- set ns.in_tool = true -%}
    {%- endif -%}
{%- endfor -%}
{%- if ns.in_tool -%}{{ '<|end-outputs|>' }}{%- endif -%}
{%- if add_generation_prompt and not ns.in_tool -%}{{- '<|assistant|><think>\\n' -}}{%- endif -%}"""

DATED = """\
{# ───── settings ───── #}
{%- if enable_thinking is not defined -%}{%- set enable_thinking = true -%}{%- endif -%}
{%- set mode = "/think" if enable_thinking else "/no_think" -%}
{%- if messages and messages[0].role == "system" and messages[0].content is string -%}
  {%- set system_message = messages[0].content -%}
  {%- if "/no_think" in system_message -%}
    {%- set mode = "/no_think" -%}
  {%- elif "/think" in system_message -%}
    {%- set mode = "/think" -%}
  {%- endif -%}
  {%- set custom = system_message.replace("/no_think", "").replace("/think", "").rstrip() -%}
{%- endif -%}
{{- "<|begin|>system\\n" -}}
{%- if strftime_now is defined %}
  {%- set today = strftime_now("%d %B %Y") -%}
  {{- "Today is " ~ today ~ ".\\n" -}}
{%- else -%}
  {%- set today = date_string if date_string is defined else "26 July 2024" -%}
  {{- "Data ends " + today + ".\\n" -}}
{%- endif -%}
{{- "Mode: " + mode + "\\n\\n" -}}
{%- if custom -%}{{- custom + "\\n\\n" -}}{%- elif mode == "/think" -%}{{- "Think between <think> and </think>." }}{{ "\\n\\n" -}}{%- endif -%}
{%- if tools -%}
  {%- set parts = namespace(text="") -%}
  {%- for tool in tools -%}
    {%- set described -%}
      {{- "  - " ~ (tool | string) -}}
    {%- endset -%}
    {%- set parts.text = parts.text ~ described ~ "\\n" -%}
  {%- endfor -%}
  {{- "### Tools\\n" ~ parts.text -}}
{%- endif -%}
{{- "<|end|>\\n" -}}
{%- for message in messages -%}
  {%- set content = message.content if message.content is string else "" -%}
  {%- if message.role == "user" -%}
    {{ "<|begin|>" + message.role + "\\n" + content + "<|end|>\\n" }}
  {%- elif message.role == "assistant" -%}
    {%- generation -%}
    {%- if mode == "/think" -%}
      {{ "<|begin|>assistant\\n" + content.lstrip("\\n") + "<|end|>\\n" }}
    {%- else -%}
      {{ "<|begin|>assistant\\n" + "<think>\\n\\n</think>\\n" + content.lstrip("\\n") + "<|end|>\\n" }}
    {%- endif -%}
    {%- endgeneration -%}
  {%- elif message.role == "tool" -%}
    {{ "<|begin|>user\\n" + content + "<|end|>\\n" }}
  {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
  {{- "<|begin|>assistant\\n" ~ ("<think>\\n\\n</think>\\n" if mode == "/no_think") -}}
{%- endif -%}"""

IDENTIFIED = """\
{%- if messages[0]["role"] == "system" %}
    {%- set system_message = messages[0]["content"] %}
    {%- set loop_messages = messages[1:] %}
{%- else %}
    {%- set loop_messages = messages %}
{%- endif %}
{%- if not tools is defined %}
    {%- set tools = none %}
{%- endif %}
{%- set user_messages = loop_messages | selectattr("role", "equalto", "user") | list %}
{#- Ordinary messages alternate; those with calls and results do not count. #}
{%- set ns = namespace() %}
{%- set ns.index = 0 %}
{%- for message in loop_messages %}
    {%- if not (message.role == "tool" or message.role == "tool_results" or (message.tool_calls is defined and message.tool_calls is not none)) %}
        {%- if strict is defined and (message["role"] == "user") != (ns.index % 2 == 0) %}
            {{- raise_exception("After the optional system message, roles must alternate") }}
        {%- endif %}
        {%- set ns.index = ns.index + 1 %}
    {%- endif %}
{%- endfor %}
{{- bos_token }}
{%- for message in loop_messages %}
    {%- if message["role"] == "user" %}
        {%- if tools is not none and (message == user_messages[-1]) %}
            {{- "[TOOLS] [" }}
            {%- for tool in tools %}
                {%- set tool = tool.function if 'function' in tool else tool %}
                {{- '{"type": "function", "function": {' }}
                {%- for key, val in tool.items() if key != "return" %}
                    {%- if val is string %}
                        {{- '"' + key + '": "' + val + '"' }}
                    {%- else %}
                        {{- '"' + key + '": ' + val|tojson }}
                    {%- endif %}
                    {%- if not loop.last %}
                        {{- ", " }}
                    {%- endif %}
                {%- endfor %}
                {{- "}}" }}
                {%- if not loop.last %}
                    {{- ", " }}
                {%- else %}
                    {{- "]" }}
                {%- endif %}
            {%- endfor %}
            {{- "[/TOOLS]" }}
        {%- endif %}
        {%- if loop.last and system_message is defined %}
            {{- "[INST] " ~ system_message ~ "\\n\\n" ~ message["content"] ~ "[/INST]" }}
        {%- else %}
            {{- "[INST] " ~ message["content"] ~ "[/INST]" }}
        {%- endif %}
    {%- elif message.tool_calls is defined and message.tool_calls is not none %}
        {{- "[CALLS] [" }}
        {%- for tool_call in message.tool_calls %}
            {%- set out = (tool_call.function if tool_call.function else tool_call)|tojson %}
            {{- out[:-1] }}
            {%- if strict is defined and (not tool_call.id is defined or tool_call.id|length != 2) %}
                {{- raise_exception("Call IDs must be strings of length 2!") }}
            {%- endif %}
            {{- ', "id": "' ~ tool_call.id ~ '"}' }}
            {%- if not loop.last %}{{- ", " }}{%- else %}{{- "]" + eos_token }}{%- endif %}
        {%- endfor %}
    {%- elif message["role"] == "assistant" %}
        {{- " " ~ message["content"]|default("", true)|string|trim ~ eos_token }}
    {%- elif message["role"] == "tool_results" or message["role"] == "tool" %}
        {%- if message.content is defined and message.content.content is defined %}
            {%- set content = message.content.content %}
        {%- else %}
            {%- set content = message.content %}
        {%- endif %}
        {{- '[RESULTS] {"content": ' ~ content|string|tojson(ensure_ascii=false) ~ ", " }}
        {{- '"call_id": "' ~ message.tool_call_id|default('none') ~ '"}[/RESULTS]' }}
    {%- endif %}
{%- endfor %}"""

TYPED = """\
{%- macro type_of(spec, required=true) -%}
    {%- if spec.type is defined and spec.type == "array" -%}
        {%- if spec['items'] is defined and spec['items'].type in ["string", "number", "integer"] -%}
            {{- "number" if spec['items'].type in ("number", "integer") else spec['items'].type }}{{ "[]" -}}
        {%- else -%}
            {{- type_of(spec['items']|default({}, true)) }}{{ "[]" -}}
        {%- endif -%}
        {%- if not required %} | null{% endif -%}
    {%- elif spec.type is defined and spec.type is iterable and spec.type is not string -%}
        {{- spec.type | join(" | ") -}}
    {%- elif spec.oneOf -%}
        {%- for variant in spec.oneOf -%}{{- type_of(variant) -}}{%- if not loop.last %}{{ " | " }}{% endif -%}{%- endfor -%}
    {%- elif spec.type == "string" -%}
        {%- if spec.enum -%}{{- '"' + spec.enum | join('" | "') + '"' -}}{%- else -%}string{%- endif -%}
    {%- elif spec.type == "object" -%}
        {%- if spec.properties -%}
            {{- "{\\n" -}}
            {%- for name, inner in spec.properties.items() -%}
                {{- "  " ~ name -}}
                {%- if name not in (spec.required or []) -%}{{- "?" -}}{%- endif -%}
                {{- ": " -}}{{- type_of(inner, name in (spec.required or [])) -}}
                {%- if not loop.last -%}{{- ", " -}}{%- endif -%}
            {%- endfor -%}
            {{- "\\n}" -}}
        {%- else -%}object{%- endif -%}
    {%- else -%}any{%- endif -%}
{%- endmacro -%}
{%- macro wrapped(tag, attrs={}) -%}
<{{ tag }}{% for k, v in attrs|dictsort %} {{ k }}={{ v|tojson }}{% endfor %}>{{ caller() }}</{{ tag }}>
{%- endmacro -%}
{%- if tools -%}
    {%- call wrapped('tools', {'n': tools|length}) -%}
        {%- for tool in tools -%}
            {%- set f = tool.function or tool -%}
            {%- if f.description -%}{{- "// " ~ f.description | trim | replace('\\n', '\\n// ') ~ "\\n" -}}{%- endif -%}
            {{- "type " + f.name + " = (_: " -}}{{- type_of(f.parameters) -}}{{- ") => any;\\n" -}}
        {%- endfor -%}
    {%- endcall -%}
{%- endif -%}
{%- for role, group in messages|groupby('role') -%}
    {%- if loop.first -%}{{ '\\n' }}{%- endif -%}{{ role }}={{ group|length }}{{ '\\n' if loop.last else ',' }}
{%- endfor -%}
{%- for pair in messages|batch(2, none) -%}
    {%- for m in pair if m is not none -%}
        {%- if m.role == 'system' -%}{%- continue -%}{%- endif -%}
        {%- if loop.index > 50 -%}{%- break -%}{%- endif -%}
        {%- filter trim -%}
            {{ m.role|upper }}: {{ (m.content if m.content is string else m.content|tojson(indent=2))|default('', true) }}
        {%- endfilter -%}
        {%- with calls = m.tool_calls|default([], true) -%}
            {%- for c in calls|reject('none')|map(attribute='function')|select('defined') -%}
                {{ '\\n' ~ c.name ~ '(' -}}
                {%- if c.arguments is mapping -%}
                    {%- for k in c.arguments -%}{{ k ~ '=' ~ c.arguments[k]|tojson }}{{ ', ' if not loop.last }}{%- endfor -%}
                {%- endif -%}
                {{- ')' }}
            {%- endfor -%}
        {%- endwith -%}
        {{- '\\n' -}}
    {%- endfor -%}
{%- endfor -%}
{{- messages|map(attribute='role')|unique|sort(reverse=true)|join('/') -}}"""

REPEATED = """\
{%- if tools %}
    {{- '<|start|>system\\n' }}
    {%- if messages[0]['role'] == 'system' %}{{- messages[0]['content'] or 'You help.' }}{%- else %}{{- 'You help.' }}{%- endif %}
    {{- "\\n\\n# Tools\\n\\n<tools>" }}
    {%- for tool in tools %}
        {{- "\\n" }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- "\\n</tools>\\n\\n<call>\\n{\\"name\\": <name>, \\"arguments\\": <object>}\\n</call><|stop|>\\n" }}
{%- elif messages[0]['role'] == 'system' %}
    {{- '<|start|>system\\n' ~ messages[0]['content'] ~ '<|stop|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) or (message.role == "assistant" and not message.tool_calls) %}
        {{- '<|start|>' + message.role + '\\n' ~ message.content + '<|stop|>' + '\\n' if message.content is string }}
    {%- elif message.role == "assistant" %}
        {{- '<|start|>' + message.role }}
        {%- if message.content %}
            {{- '\\n' ~ message.content }}
        {%- endif %}
        {%- for tool_call in message.tool_calls %}
            {%- if tool_call.function is defined %}
                {%- set tool_call = tool_call.function %}
            {%- endif %}
            {{- '\\n<call>\\n{"name": "' }}
            {{- tool_call.name }}
            {{- '", "arguments": ' }}
            {{- tool_call.arguments | tojson(separators=(',', ':'), sort_keys=false) }}
            {{- '}\\n</call>' }}
        {%- endfor %}
        {{- '<|stop|>\\n' }}
    {%- elif message.role == "tool" %}
        {%- if (loop.index0 == 0) or (messages[loop.index0 - 1].role != "tool") %}
            {{- '<|start|>user' }}
        {%- endif %}
        {{- '\\n<result>\\n' ~ message.content ~ '\\n</result>' }}
        {%- if loop.last or (messages[loop.index0 + 1].role != "tool") %}
            {{- '<|stop|>\\n' }}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start|>assistant\\n' }}
{%- endif %}"""

STYLES = {"thinking": THINKING, "dated": DATED, "identified": IDENTIFIED, "typed": TYPED, "repeated": REPEATED}
