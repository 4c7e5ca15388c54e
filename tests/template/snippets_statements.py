"""Statements, one construct each, and the layout of what is around them."""

STATEMENTS = r"""
{% for a in nums %}{{ loop.index }}/{{ loop.index0 }}/{{ loop.revindex }}/{{ loop.revindex0 }}/{{ loop.length }} {% endfor %}
{% for a in nums %}{{ loop.first }}{{ loop.last }}{{ loop.depth }}{{ loop.depth0 }};{% endfor %}
{% for a in nums %}{{ loop.previtem }}<{{ a }}>{{ loop.nextitem }};{% endfor %}
{% for a in nums %}{{ loop.previtem is defined }}{{ loop.nextitem is defined }};{% endfor %}
{% for a in nums %}{{ loop.cycle('x', 'y') }}{{ loop.changed(a > 2) }}{% endfor %}
{% for a in nums %}{{ loop }}{% endfor %}
{% for a in [] %}x{% else %}none{% endfor %}
{% for a in nope %}x{% else %}none{% endfor %}
{% for a in n %}x{% else %}none{% endfor %}
{% for a in 5 %}x{% endfor %}
{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}
{% for k in d %}{{ k }};{% endfor %}
{% for a, b in [[1, 2], (3, 4)] %}{{ a + b }};{% endfor %}
{% for a, (b, c) in [[1, [2, 3]]] %}{{ a }}{{ b }}{{ c }}{% endfor %}
{% for a, b in [[1, 2, 3]] %}{% endfor %}
{% for a, b in [[1]] %}{% endfor %}
{% for a, b in ['xy', 'zw'] %}{{ b }}{{ a }}{% endfor %}
{% for a in nums if a > 1 %}{{ a }}:{{ loop.index }}/{{ loop.length }};{% endfor %}
{% for a in nums if a > 100 %}x{% else %}nothing{% endfor %}
{% for a, b in [[1, 2], [3, 4]] if b > 2 %}{{ a }}{{ loop.last }}{% endfor %}
{% set ns = namespace(n=0) %}{% for a in nums if ns.n < 2 %}{% set ns.n = ns.n + 1 %}{{ a }};{% endfor %}
{% for a in nums %}{% if a == 2 %}{% break %}{% endif %}{{ a }}{% endfor %}
{% for a in nums %}{% if a == 2 %}{% continue %}{% endif %}{{ a }}{% endfor %}
{% for a in nums %}{% continue %}{% else %}else{% endfor %}
{% for a in nums %}{% break %}{% else %}else{% endfor %}
{% for a in nums %}{% set y %}text{% break %}{% endset %}{% endfor %}after
{% for a in nums %}{% for b in words %}{{ loop.index }}{% endfor %}{{ loop.index }};{% endfor %}
{% for a in nums %}{% set outer = loop %}{% for b in words %}{{ outer.index }}{{ loop.index }} {% endfor %}{% endfor %}
{% for a in range(3) %}{{ a }}{% endfor %}{{ a }}
{% for c in 'héy' %}{{ c }}-{% endfor %}
{% for a in [1, 2, 3] if a is odd %}{{ a }}{% endfor %}
{% for a in nums|sort %}{{ a }}{% if not loop.last %}, {% endif %}{% endfor %}
{% for a in nums|map('string') %}{{ loop.length }}{{ a }}{% endfor %}
{% for a in nums|select('odd') %}{{ a }}{{ loop.last }}{{ loop.nextitem }};{% endfor %}
{% break %}
{% for a in nums %}{% macro m() %}{% break %}{% endmacro %}{% endfor %}
{% for loop in nums %}{% endfor %}
{% for a in nums %}{% set loop = 1 %}{% endfor %}
{% for a in nums %}{% endfor
{% if t %}a{% elif f %}b{% else %}c{% endif %}
{% if f %}a{% elif t %}b{% else %}c{% endif %}
{% if f %}a{% elif n %}b{% else %}c{% endif %}
{% if nope %}a{% else %}c{% endif %}
{% if 0 or '' or [] or {} or none or 0.0 %}a{% else %}c{% endif %}
{% if nums and words and d and s and i and x and range(1) %}a{% endif %}
{% if range(0) or d.keys() == [] or ().count %}a{% endif %}
{% if t, %}a{% endif %}
{% if %}a{% endif %}
{% if t %}a
{% if t: %}colon{% endif %}
{% if i == 42 and not f %}{{ 'y' }}{% endif %}
{% set a = 1 %}{{ a }}
{% set a, b = 1, 2 %}{{ a }}{{ b }}
{% set a, b = [1, 2] %}{{ b }}{{ a }}
{% set a = 1, 2 %}{{ a }}
{% set a = 1 if f %}{{ a is undefined }}
{% set a %}body {{ i }}{% endset %}{{ a }}|{{ a|length }}
{% set a | upper | trim %} body {{ s }} {% endset %}{{ a }}
{% set a | replace('o', words[0]) %}foo{% endset %}{{ a }}
{% set a = 1 %}{% set a = a + 1 %}{{ a }}
{% set a = 1 %}{% for b in [1, 2] %}{% set a = a + b %}{{ a }}{% endfor %}{{ a }}
{% set a = 1 %}{% if t %}{% set a = 2 %}{% endif %}{{ a }}
{% if f %}{% set i = 2 %}{% endif %}{{ i }}
{% if t %}{% set i = 2 %}{% endif %}{{ i }}
{% for b in [1] %}{{ i }}{% endfor %}{% set i = 5 %}{{ i }}
{{ i }}{% for b in [1] %}{{ i }}{% endfor %}{% set i = 5 %}{{ i }}
{% for b in [1, 2] %}{{ i }}{% set i = b %}{{ i }}{% endfor %}{{ i }}
{% for b in [1, 2] %}{% if b == 2 %}{% set i = 'set' %}{% endif %}{{ i }}{% endfor %}{{ i }}
{% for b in [1, 2] %}{% if b == 2 %}{{ q }}{% else %}{% set q = 3 %}{% endif %}{{ q }}{% endfor %}
{% set q = 1 %}{% for b in [1, 2] %}{% if b == 1 %}{% set q = 5 %}{% elif b == 2 %}{{ q }}{% endif %}{{ q }};{% endfor %}
{% if f %}{% set z = 1 %}{% elif t %}{% set z = 2 %}{% else %}{{ z }}{% endif %}{{ z }}
{% set ns = namespace() %}{% set ns.a = 1 %}{{ ns.a }}{{ ns.b }}
{% set ns = namespace(a=1, b='x') %}{{ ns }}{{ ns.a }}{{ ns['b'] }}
{% set ns = namespace({'a': 1}, b=2) %}{{ ns.a }}{{ ns.b }}
{% set ns = namespace([('a', 1)]) %}{{ ns.a }}
{% set ns = namespace(found=false) %}{% for a in nums %}{% if a == 2 %}{% set ns.found = true %}{% endif %}{% endfor %}{{ ns.found }}
{% set ns = namespace(a=1) %}{% set ns.a, b = 5, 6 %}{{ ns.a }}{{ b }}
{% set ns = namespace() %}{% set ns.a %}block{% endset %}{{ ns.a }}
{% set d.x = 1 %}
{% set nope.x = 1 %}
{% set 5 = 1 %}
{% set none = 1 %}
{% set a.b.c = 1 %}
{% set (a, b) = (1, 2) %}{{ a }}{{ b }}
{% set ns = namespace(items=[]) %}{% for a in nums %}{% set ns.items = ns.items + [a] %}{% endfor %}{{ ns.items }}{{ ns.items|length }}
{% set base = [1] %}{% set p = base + [2] %}{% set q = base + [3] %}{{ p }}{{ q }}{{ base }}
{% macro m(a, b=2, c=none) %}{{ a }}-{{ b }}-{{ c }}{% endmacro %}{{ m(1) }} {{ m(1, c=3) }} {{ m(b=1, a=0) }} {{ m() }}
{% macro m(a, b=a ~ '!') %}{{ b }}{% endmacro %}{{ m('x') }}
{% macro m() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, z=3) }}
{% macro m() %}x{% endmacro %}{{ m(1) }}
{% macro m() %}x{% endmacro %}{{ m(a=1) }}
{% macro m(a, b=1, c) %}x{% endmacro %}
{% macro m(a) %}{{ a }}{{ caller() }}{% endmacro %}{% call m(1) %}body {{ i }}{% endcall %}
{% macro m() %}{{ caller(1, b=2) }}{% endmacro %}{% call(a, b=5) m() %}{{ a }}{{ b }}{% endcall %}
{% macro m() %}no caller{% endmacro %}{% call m() %}x{% endcall %}
{% macro m() %}{{ caller }}{% endmacro %}{{ m() }}|
{% macro m() %}{{ caller() }}{% endmacro %}{{ m() }}
{% macro m(caller=none) %}{{ caller }}{% endmacro %}{{ m() }}
{% call m() %}x{% endcall %}{% macro m() %}{{ caller() }}{% endmacro %}
{% call i %}x{% endcall %}
{% macro f(k) %}{% if k > 0 %}{{ k }}{{ f(k - 1) }}{% endif %}{% endmacro %}{{ f(3) }}
{% macro m() %}{{ i }}{% set i = 7 %}{{ i }}{% endmacro %}{{ m() }}{{ i }}
{% set a = 1 %}{% macro m() %}{{ a }}{% endmacro %}{% set a = 2 %}{{ m() }}
{% macro m() %}{{ late }}{% endmacro %}{% set late = 3 %}{{ m() }}
{% for a in [1, 2] %}{% macro m() %}{{ a }}{% endmacro %}{{ m() }}{% endfor %}
{{ m }}{% macro m() %}x{% endmacro %}{{ m }}{{ m.name }}
{% macro m(a) %}{{ a is defined }}{{ a }}{% endmacro %}{{ m() }}{{ m(none) }}
{% macro m() %}{% for a in nums %}{{ loop.index }}{{ a }}{% endfor %}{% endmacro %}{{ m()|length }}{{ m() ~ 'x' }}
{% macro outer() %}{% macro inner(a) %}{{ a }}{{ i }}{% endmacro %}{{ inner(1) }}{% endmacro %}{{ outer() }}
{% macro m(*a) %}{% endmacro %}
{% macro m(a, a) %}{% endmacro %}
{{ m(1) }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(*[1]) }}{{ m(**{'a': 2}) }}
{% macro m(a, b) %}{{ a }}{{ b }}{% endmacro %}{{ m(*[1], b=2) }}{{ m(1, **{'b': 3}) }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, a=2) }}
{% filter upper %}a{{ s }}{% endfilter %}
{% filter replace('a', 'b')|trim %} aaa {% endfilter %}
{% filter upper %}{% set zz = 1 %}{{ zz }}{% endfilter %}{{ zz }}
{% with a = 1, b = i %}{{ a }}{{ b }}{% endwith %}{{ a }}
{% with i = 1, b = i %}{{ b }}{% endwith %}
{% with %}{% set i = 3 %}{{ i }}{% endwith %}{{ i }}
{% print i, s %}
{% generation %}made {{ i }}{% set gg = 1 %}{% endgeneration %}{{ gg }}
{% for a in [1, 2] %}{% generation %}{{ a }}{% endgeneration %}{% endfor %}
{% for a in [1] %}{% generation %}{% break %}{% endgeneration %}{% endfor %}
{% raw %}{{ x }} {% y %} {# z #}{% endraw %}
{%- raw -%}  {{ x }}  {%- endraw -%}  end
a {%- raw %} b {% endraw -%} c
{% raw %}x
{% raw %}
{# comment #}a{# more
lines #}b{#- strip -#} c
{# open
a{#
{{ 1 }} {# {{ 2 }} #} {{ 3 }}
{% unknown %}
{% endfor %}
{% if t %}{% endfor %}
{% else %}
{% for %}{% endfor %}
{% for a %}{% endfor %}
{% set %}
{% macro %}{% endmacro %}
{% 5 %}
{{ }}
{{
{{ i
{{ i }
{% if t }}
{{ i }}}
{{ (1 }}
{{ 1) }}
{{ [1, 2 }}
{{ {'a': 1 }}
{{ {'a'} }}
{{ 'unterminated }}
{{ 1 2 }}
{{ a b }}
{{ ! }}
{{ $ }}
{{ a? }}
{{ ;; }}
"""

LAYOUT = [
    "a\n{% if t %}\nb\n{% endif %}\nc\n",
    "a\n  {% if t %}  \n  b\n  {% endif %}\nc\n\n",
    "a\n  {%+ if t %}\n  b\n  {%+ endif %}\nc",
    "a\n  {%- if t -%}\n  b\n  {%- endif -%}\nc",
    "a\n  {%- if t +%}\n  b\n  {%- endif +%}\nc",
    "  {{ i }}  \n  {{- i }}  \n  {{ i -}}  \n x",
    "  {% set a = 1 %}\n\n  {% set a = 1 %}x",
    "x {% set a = 1 %} y",
    "  {# c #}\n x\n  {#- c -#}\n y {#+ c +#}\n z",
    "\t{% if t %}\ta{% endif %}\n\tb",
    "{% if t %}\r\na\r\n{% endif %}\rb\r\n",
    "a\n\n",
    "a\n",
    "a",
    "",
    "\n",
    "\n\n{{ i }}\n",
    "{% for a in [1, 2] %}\n  {{ a }}\n{% endfor %}\n",
    "{% for a in [1, 2] -%}\n  {{ a }}\n{%- endfor %}\n",
    "{%- for a in [1, 2] %}\n    {%- if a == 1 %}\n one\n    {%- else %}\n other\n    {%- endif %}\n{%- endfor %}",
    "x\n  {% raw %}\n  {{ a }}\n  {% endraw %}\ny",
    "x\n  {%- raw -%}\n  {{ a }}\n  {%- endraw -%}\ny",
    "x {{ '\n' }} y",
    "{{ 'a\\nb' }}{{ \"a\\tb\" }}{{ 'a\nb' }}{{ 'a\r\nb' }}",
    "{% if t\n  and\n i %}x{% endif %}",
    "{{\n i\n}}",
    "\u00a0{%- if t %}x{% endif -%}\u2003y",
    "\u00a0\u00a0{% if t %}x{% endif %}",
    "{{ '{{' }}{{ '%}' }}{{ '}}' }}",
    "{{ {'a': {'b': 1}}['a']['b'] }}",
    "{{ {'a': {'b': 1}} }}",
    "{ {{ i }} } {%",
    "{ % {{ i }} % } # {",
    "<|im_start|>{{ s }}<|im_end|>",
    "{% set a %}\n  x\n{% endset %}[{{ a }}]",
    "line\n{{ nope.attr }}",
]
