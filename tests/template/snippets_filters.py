"""Filters, one construct each."""

FILTERS = r"""
html|escape, html|e, (html|e)|e, html|forceescape, (html|escape)|forceescape, 5|e, none|e
(html|safe) + html, html + (html|safe), (html|safe) ~ html, (html|safe) * 2, (html|safe)|upper, [(html|safe)], (html|safe) == html, (html|safe)[:3], (html|safe)|length
(html|safe) + 1
'%s' % (html|safe), ('%s'|safe) % html, (html|safe).replace('a', '<'), (html|safe)|replace('<', '&'), ('<'|safe).join([html, 'x']), [html|safe, html]|join('<')
s|tojson, u|tojson, quote|tojson, html|tojson, i|tojson, x|tojson, n|tojson, t|tojson, mixed|tojson, d|tojson, users|tojson
d|tojson(indent=2), mixed|tojson(indent=4), []|tojson(indent=2), {}|tojson(indent=2), [[], {}]|tojson(indent=1), d|tojson(indent=0), d|tojson(indent='--'), d|tojson(indent=true), d|tojson(indent=-1)
u|tojson(ensure_ascii=true), '\x7f\x1f\u2028'|tojson, '\x7f\x1f\u2028'|tojson(true), '👩'|tojson(ensure_ascii=True)
d|tojson(sort_keys=true), d|tojson(separators=(',', ':')), d|tojson(indent=2, separators=(',', ': ')), {2: 1, none: 2, true: 3, 1.5: 4}|tojson, (1, 2)|tojson, 1e400|string
{(1, 2): 3}|tojson
{1: 2, 'a': 3}|tojson(sort_keys=true)
nope|tojson
range(3)|tojson
d.items()|tojson
(nums|map('string'))|tojson
namespace(a=1)|tojson
d|tojson(indent='x', foo=1)
d|tojson(indent=1.5)
1.0|tojson, 1e20|tojson, 1e-7|tojson, 1e16|tojson, (1e308 * 10)|tojson
'  x '|trim, 'xxaxx'|trim('x'), 5|trim, none|trim, nope|trim, 'x'|trim(none)
s|upper, s|lower, s|title, s|capitalize, 5|upper, none|upper, 'foo-bar (baz) [qux] {a} <b> it\'s o\'neil'|title, 'ΑΣ ΒΣ'|title, u|title, 'ß ǆ'|title
s|replace('l', 'L'), s|replace('l', 'L', 1), 123|replace(2, 'x'), s|replace('o', 5), nope|replace('a', 'b'), 'aaa'|replace('', '-'), none|replace('o', 'x')
s|length, nums|length, d|count, nope|length, ''|length, range(5)|length, d.items()|length
i|length
n|length
(nums|map('string'))|length
(nums|reverse)|length
s|default('x'), nope|default('x'), nope|default, n|default('x'), n|default('x', true), ''|d('x', true), 0|d(5, boolean=true), d.zzz|default('q'), nope|default(nope) is defined
nums|first, nums|last, s|first, s|last, []|first is defined, []|last is defined, d|first, d|last, nope|first is defined, nope|last is defined, range(3)|last, d.items()|last
i|first
(nums|map('string'))|last
(nums|map('string'))|first
nums|join, nums|join(', '), words|join('-'), users|join(', ', attribute='name'), d|join(','), s|join('.'), []|join, nope|join, nums|join(5), mixed|join('|'), users|join(attribute='name')
users|join(attribute='tags.0')
i|join
nums|list, s|list, d|list, nope|list, range(3)|list, (1, 2)|list, d.items()|list
i|list
nums|reverse|list, s|reverse, u|reverse, d|reverse|list, range(3)|reverse|list, (nums|map('string'))|reverse, (1, 2)|reverse|list, nope|reverse|list
i|reverse
nums|sort, nums|sort(reverse=true), words|sort, words|sort(case_sensitive=true), users|sort(attribute='age')|map(attribute='name')|list, users|sort(attribute='age,name', reverse=true)|map(attribute='name')|list, 'hello'|sort, d|sort, nope|sort, [2.5, 1, true]|sort, [[2, 1], [1, 2]]|sort
mixed|sort
users|sort
[1, none]|sort
users|sort(attribute='missing')|length
nums|unique|list, words|unique|list, words|unique(true)|list, users|unique(attribute='age')|map(attribute='name')|list, [1, 1.0, true, '1']|unique|list, 'hello'|unique|join
[[1], [1]]|unique|list
nums|min, nums|max, words|min, words|max, words|max(case_sensitive=true), users|min(attribute='age'), users|max(attribute='name'), []|min is defined, 'hello'|max, [1, true]|max, [2.0, 2]|min
mixed|max
nums|sum, users|sum(attribute='age'), nums|sum(start=100), []|sum, [0.1, 0.2]|sum, [[1], [2]]|sum(start=[]), [true, true]|sum, nope|sum
words|sum
words|sum(start='')
d|dictsort
{'b': 1, 'A': 3, 'c': 2}|dictsort, {'b': 1, 'A': 3, 'c': 2}|dictsort(true), {'b': 1, 'A': 3, 'c': 2}|dictsort(by='value'), {'b': 1, 'A': 3}|dictsort(reverse=true), {'b': 1}|dictsort(false, 'value')
{'b': 1}|dictsort(by='x')
nums|dictsort
nope|dictsort
d|items|list, d|items|first, nope|items|list, {}|items|list
nums|items|list
users|groupby('age')|list, users|groupby('age')|map('first')|list, users|groupby('name', case_sensitive=true)|length, users|groupby('zz', default='none')|list, (users|groupby('age')|first).grouper, (users|groupby('age')|first).list|length, (users|groupby('age'))[0].list[0].name
users|map(attribute='name')|list, users|map(attribute='zz', default='?')|list, words|map('upper')|list, nums|map('string')|join, words|map('replace', 'p', 'q')|list, nums|map('default', 5)|list, nope|map('upper')|list, [{'a': {'b': 1}}]|map(attribute='a.b')|list, [[1, 2]]|map(attribute=0)|list, [[1, 2]]|map(attribute='1')|list
nums|map('nope')|list
users|map(attribute='tags.0')|list
users[:2]|map(attribute='tags.0')|list
nums|map|list
[]|map|list, []|map('nope')|list
nums|map(attribute='a', foo=1)|list
words|map(5)|list
i|map('upper')|list
nums|select|list, nums|select('odd')|list, nums|select('gt', 2)|list, nums|select('>', 2)|list, nums|reject('odd')|list, mixed|select('string')|list, [0, 1, '', 'a', none]|select|list, [0, 1]|reject|list, nums|select('in', [1, 2])|list, nums|select('divisibleby', num=2)|list
nums|select('nope')|list
[]|select('nope')|list
mixed|select('odd')|list
users|selectattr('ok')|map(attribute='name')|list, users|selectattr('age', 'gt', 30)|map(attribute='name')|list, users|rejectattr('ok')|map(attribute='name')|list, users|selectattr('tags', 'defined')|list|length, users|rejectattr('tags', 'defined')|map(attribute='name')|list, users|selectattr('name', 'equalto', 'bob')|first
users[:2]|selectattr('tags.0', 'defined')|list|length
users|selectattr('tags.0', 'defined')|list|length
users|selectattr|list
users|selectattr(5)|list
(nums|select('odd')) is iterable, (nums|select('odd')) is sequence, (nums|select('odd')) is string, (nums|select('odd'))|first
(nums|select('odd'))[0] is defined
nums|batch(2)|list, nums|batch(2, 'x')|list, nums|batch(10)|list, nums|batch(0)|list, []|batch(2)|list, nums|batch(linecount=3, fill_with=none)|list
nums|slice(2)|list, nums|slice(3, 'x')|list, nums|slice(10)|list, []|slice(2)|list, nums|slice(-1)|list
nums|slice(0)|list
i|string, x|string, n|string, nums|string, nope|string, t|string, s|string
'5'|int, ' 5 '|int, '5.7'|int, 'x'|int, 'x'|int(7), 'x'|int('d'), none|int, 5.9|int, -5.9|int, t|int, '0x1f'|int(base=16), '0b11'|int(0, 2), '1_000'|int, '٣'|int, [1]|int, 'inf'|int, '1e3'|int, ''|int, '-5'|int, '+5'|int, '1f'|int(0, 16), '0x1f'|int(0, 0), '010'|int(9, 0), '- 5'|int, 'z'|int(0, 36), '5'|int(3, 99), '0x'|int(1, 16)
nope|int
(1e308 * 10)|int
'5'|float, '5.5'|float, ' 1e3 '|float, 'x'|float, 'x'|float(1.5), none|float, 5|float, t|float, '1_0.5'|float, '.5'|float, '5.'|float, '0x10'|float, '1__0'|float, ''|float
nope|float
'inf'|float ~ '-Infinity'|float ~ 'nan'|float ~ '+nan'|float ~ 'infin'|float
-5|abs, 5.5|abs, -0.0|abs, t|abs
s|abs
42.55|round, 42.55|round(1), 2.5|round, 3.5|round, -2.5|round, 42|round, 1234|round(-2), 1250|round(-2), 1350|round(-2), 0.5|round, 1.005|round(2), 2.675|round(2), 42.55|round(1, 'floor'), 42.51|round(1, 'ceil'), 42|round(0, 'ceil'), -1.5|round(0, 'floor'), 1234.5|round(-2), 1250.0|round(-2), 50.0|round(-2), 51.0|round(-2), 1e300|round(2), t|round, 5.0|round(400), 155.0|round(-1), 0.1|round(25), -0.4|round(0, 'ceil'), 5|round(-1), 15|round(-1), 1e22|round(-22), 5e22|round(-23)
s|round
1.5|round(0, 'x')
1.5|round(none) is defined
lines|indent, lines|indent(2), lines|indent(2, true), lines|indent(2, blank=true), lines|indent('> '), lines|indent('> ', true, true), ''|indent, ''|indent(2, true), 'a'|indent(4, first=true), 'a\n'|indent(2), 'a\n\n'|indent(2, blank=true), '\n'|indent(2), lines|indent(width=1)
5|indent
nope|indent
'foo bar baz qux'|truncate(9), 'foo bar baz qux'|truncate(9, true), 'foo bar baz qux'|truncate(11), 'foo bar baz qux'|truncate(11, false, '...', 0), 'foo bar baz qux'|truncate(3, end=''), u|truncate(10, true, '…', 0), 'abc'|truncate, 'foobarbaz'|truncate(5, leeway=0)
'foo bar baz'|truncate(1)
'Hello, World!'|wordcount, u|wordcount, ''|wordcount, 'a_b c-d'|wordcount, 5|wordcount
'x'|center(5) ~ '|', 'x'|center ~ '|', 'xy'|center(5), 5|center(4)
'%s-%d'|format('a', 5), '%(a)s'|format(a=1), 'x'|format
'%s'|format
'%s'|format(1, a=2)
'%s'|format(1, 2)
d|attr('a') is defined, d|attr('items') is defined, s|attr('upper')(), d|attr('nested') is defined
"""
