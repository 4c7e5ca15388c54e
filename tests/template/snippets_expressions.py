"""Expressions, one construct each: operators, literals, methods, functions, tests."""

EXPRESSIONS = r"""
1 + 2 * 3 - 4 / 2
7 // 2, -7 // 2, 7 // -2, 7 % 3, -7 % 3, 7 % -3
7.5 // 2, -7.5 // 2, 7.5 % 2, -7.5 % 2, 7.5 % -2, -0.0 % 2
2 ** 3 ** 2, -2 ** 2, 2 ** -1, 0 ** 0, 2.0 ** 0.5, (-8) ** 2
2 ** 62 + (2 ** 62 - 1)
9223372036854775807
-9223372036854775807 - 1
1 / 0
1 // 0
1 % 0
1.0 / 0
1.5 % 0
0 ** -1
1 / 3, 2 / 3, 10 / 5, 1e10 / 3
1e100, 1e16, 1e15, 123456789012345680.0, 1e-4, 1e-5, 0.1 + 0.2, 1.0, -0.0, 5e-324, 1.7976931348623157e308
0b101, 0o17, 0xff, 1_000, 0_0, 1_0.5_0, 1e+5, 1E5
1.e5
01
1__0
1_
0x
5 .real
1.5.real
true, false, none, True, False, None
TRUE
not t, not f, not not i, not n and t
t and i, f and i, i and s, '' or 'x', none or 0, t or nope.x
f or nope.x
1 < 2 < 3, 1 < 3 < 2, 3 > 2 >= 2 == 2 != 3
1 == 1.0, 1 == true, 0 == false, '1' == 1, none == false, [] == (), [1] == [1.0], {'a': 1} == {'a': true}
'a' < 'b', 'a' < 'B', 'ab' < 'abc', [1, 2] < [1, 3], (1,) < (1, 0)
1 < 'a'
none < 1
[1] < (1,)
{} < {}
'é' > 'z', '日' < '本'
9007199254740993 == 9007199254740992.0, 9007199254740993 > 9007199254740992.0
2 in [1, 2], 2 not in [1, 2], 'b' in d, 'q' in d, 'ell' in s, 'é' in u, '' in s, 1 in range(3), 2.0 in [2]
1 in s
1 in 5
[] in {}
'a' in nope
1 in {'a': 1}.values(), 'a' in {'a': 1}.keys(), ('a', 1) in {'a': 1}.items()
'a' 'b' "c"
'a' ~ 1 ~ none ~ 2.5 ~ [1, 'x'] ~ true ~ nope
1 ~ 2 + 3
1 + 2 ~ 3
'x' * 3, 3 * 'x', [1, 2] * 2, (1,) * 2, 'x' * -1, 'x' * true, 2 * [] 
'x' * 2.0
[1] + [2], (1,) + (2,), 'a' + 'b'
[1] + (2,)
'a' + 1
1 + 'a'
none + 1
[] + none
'a' - 'b'
t + t, t * 5, -t, +t, t / 2
-i, +i, - -i, -x
-s
+n
i if t else s, i if f else s, i if f, (i if f) is defined
'a' if t else 'b' if f else 'c'
'a' if f else 'b' if f else 'c'
(1, 2), (1,), (), 1, 
[1, [2, 'x'], {'a': none}], {}, [], {'a': 1, 1: 2, none: 3, true: 4, 2.5: 5, (1, 2): 6}
{'a': 1, 'a': 2}, {1: 'a', true: 'b', 1.0: 'c'}
{[]: 1}
{'a': 1}['a'], {1: 2}[1], {1: 2}[true], {(1, 2): 3}[1, 2]
nums[0], nums[-1], nums[99], nums[-99], nums['0'], nums[true], nums[1.0]
s[0], s[-1], s[99], u[10], u[-1]
s[1:3], s[:3], s[3:], s[:], s[::-1], s[::2], s[-3:], s[:-3], s[5:2], s[5:2:-1], s[100:], s[-100:2], u[2:15:3], u[::-1], u[14:3:-2]
nums[1:3], nums[::-1], nums[::2], nums[-2:], nums[:-1], nums[4:1:-2], nums[none:2]
nums[::0]
nums['a':]
nums[1.5:]
d[1:]
n[:1]
i[0]
i[0:1]
nope[0]
nope[0:1]
(1, 2, 3)[1:], range(10)[2:8:3], range(10)[::-1], range(10)[-1], range(5)[9]
d.a, d['a'], d.missing, d['missing'], d.nested.deep.er, d['nested']['deep'].er
d.nested.nope.er
d.items is defined, d['items'], d.get('items'), d.keys is callable, d.get is defined, d.pop is defined, d.update is defined
d.nope.nope
d.get('a'), d.get('q'), d.get('q', 7), d.get(*['a'])
d.get()
d.get([])
d.get('a', default=1)
d.pop('a')
d.update({})
d.setdefault('q', 1)
nums.append(1)
nums.sort()
nums.count(1), nums.index(2), (1, 2, 1).count(1), (1, 2).index(2), nums.copy()
nums.index(77)
nums.index(1, 0, 1)
d.keys(), d.values(), d.items(), {}.items()
d.keys()|list, d.items()|list, d.values()|list|length, d.keys()|length, d.items()|first
d.keys()[0]
d.keys() == {'b': 1, 'a': 1, 'items': 1, 'Z': 1, 'nested': 1}.keys()
d.copy()
s.nope, s.nope is undefined, i.nope, n.nope, n['x']
''.__class__, d.__class__, nums.__len__, s.__init__ is defined
nope, nope is undefined, nope == nope, nope == none, nope != 1, not nope, [nope], nope|length, nope|list, nope ~ 'x'
nope.x
nope + 1
1 + nope
nope < 1
-nope
nope()
s()
n()
d()
d.a()
s.upper(), s.lower(), s.title(), s.capitalize(), s.swapcase(), u.upper(), u.title(), u.capitalize(), 'ǆ'.title(), 'ß'.upper(), 'ΑΣ'.lower(), 'ΣΑΣ'.title(), 'İ'.lower(), 'ﬁ'.upper(), 'ß'.casefold(), 'ŉ'.capitalize()
s.casefold()
'  x '.strip(), '  x '.lstrip(), '  x '.rstrip(), 'xxaxx'.strip('x'), 'abcxcba'.strip('abc'), 'éxé'.strip('é'), 'x'.strip(none), '\u00a0x\u2003'.strip()
'x'.strip(1)
s.split(','), s.split(), spaced.split(), spaced.split(' '), spaced.split(none, 1), 'a,b,c'.split(',', 1), 'a,b,c'.rsplit(',', 1), spaced.rsplit(none, 1), ''.split(), ''.split(','), 'a,b'.split(',', maxsplit=0), 'a'.split(sep='a'), 'aXbXc'.split('X', -1)
s.split('')
s.split(1)
lines.splitlines(), lines.splitlines(true), ''.splitlines(), 'a\x0bb\x1cc\x85d\u2028e'.splitlines()
'a=b=c'.partition('='), 'a=b=c'.rpartition('='), 'abc'.partition('='), 'abc'.rpartition('=')
s.startswith('Hell'), s.startswith(('x', 'H')), s.endswith('ld'), s.startswith('W', 7), s.endswith('o', 0, 5), s.startswith(''), 'x'.startswith('', 2), 'x'.startswith(())
s.startswith(['H'])
s.startswith(1)
s.find('o'), s.rfind('o'), s.find('zz'), s.find('o', 5), s.find('', 99), s.find(''), s.rfind(''), u.find('日'), u.rfind('k'), s.find('o', -5, -1), s.index('W'), s.rindex('l'), s.count('l'), s.count(''), s.count('o', 5), u.count('ů')
s.index('zz')
s.replace('l', 'L'), s.replace('l', 'L', 1), s.replace('', '-'), s.replace('', '-', 2), s.replace('zz', 'x'), s.replace('l', ''), s.replace('Hello', ''), u.replace('ů', 'u')
s.replace('l')
s.replace('l', none)
s.removeprefix('Hello'), s.removesuffix('World'), s.removeprefix('x')
'x'.center(5), 'x'.center(6), 'xy'.center(5), 'x'.center(5, '*'), 'x'.ljust(4) ~ '|', 'x'.rjust(4), 'é'.rjust(3, 'ů'), '-5'.zfill(5), '5'.zfill(3), '+5'.zfill(1)
', '.join(words), '-'.join('abc'), ''.join([]), ','.join(d), ' '.join(words|map('upper'))
','.join(nums)
','.join(5)
'abc'.isalpha(), 'ab1'.isalnum(), '12'.isdigit(), '²'.isdigit(), '²'.isdecimal(), '½'.isnumeric(), ' \t'.isspace(), ''.isspace(), 'Abc'.isupper(), 'ABC1'.isupper(), 'abc!'.islower(), 'A Title'.istitle(), 'a_1'.isidentifier(), '1a'.isidentifier(), 'é'.isascii(), ''.isascii(), 'a\n'.isprintable(), '一'.isnumeric(), 'ª'.islower(), 'Ⅷ'.isupper()
'%s is %d' % ('x', 5), '%s' % 'x', '%5.2f|%-6d|%06d|%+d|% d' % (3.14159, 42, 42, 42, 42), '%x %X %o %#x %#o' % (255, 255, 8, 255, 8), '%e %E %g %G' % (12345.678, 0.00001, 1e20, 1e-10), '%r %s' % ('a', none), '%c%c' % (65, 'é'), '%%', '%(a)s %(b)s' % d, '%5s|%-5s|%.2s' % ('é', 'b', 'cde'), '%s' % (1,), '%s %s' % (1, [2]), '%*d' % (5, 3), '%.3d' % 5, '%i' % 3.9, '%d' % true, '%s' % nope, 'a' % [], 'a' % {}, '%.0f' % 2.5, '%x' % -255
'%5%|' % ()
'%5%|' % 1
'%%|' % ()
'%d' % 'x'
'%d' % none
'%s %s' % 'x'
'%s' % (1, 2)
'a' % 1
'%z' % 1
'%' % 1
'%(q)s' % d
'%(a' % d
'%(a)s' % 1
'{} {}'.format(1, 'x'), '{0} {1} {0}'.format(1, 2), '{a} {b.a} {b[Z]} {b[Z][0]}'.format(a=1, b=d), '{{}}'.format(), '{!r} {!s}'.format('x', 'y'), '{:>5}|{:<5}|{:^5}|{:*^7}'.format('a', 'b', 'c', 'd'), '{:05d} {:+d} {:,} {:x} {:#x} {:b} {:_}'.format(42, 42, 1234567, 255, 255, 5, 1234567), '{:.2f} {:.3e} {:g} {:%} {:10.3f}|'.format(3.14159, 31415.9, 0.0001, 0.25, 2.5), '{:.3}'.format('abcdef'), '{:{}}'.format('x', 5) ~ '|', '{:,.2f}'.format(1234567.891), '{}'.format(none), '{} {}'.format([1], true), '{:d}'.format(true), '{:012,}'.format(1234567), '{:.3}|{:.1}|{:10}'.format(1234.5678, 5.0, 2.5), '{:s}'.format('x'), '{:f}'.format(1), '{:+.1f}'.format(-0.04)
'{}'.format()
'{a}'.format(1)
'{0} {}'.format(1, 2)
'{'.format(1)
'}'.format(1)
'{:d}'.format('x')
'{:5}'.format(none)
'{!x}'.format(1)
'{a}'.format_map(d), '{a.__class__}'.format_map({'a': 1})
range(5)|list, range(1, 4)|list, range(10, 0, -3)|list, range(0), range(1, 5, 2), range(5)|length, range(3) == range(0, 3), range(0) == range(5, 5), range(3)[1]
range('x')
range()
range(1, 2, 0)
range(100001)
range(100000)|length
range(1.5)
dict(a=1, b=2), dict({'a': 1}, b=2), dict([('a', 1)]), dict(), dict(d, a=5)
dict(1)
dict([1])
namespace(a=1).a, namespace().b is defined
raise_exception('boom')
raise_exception()
strftime_now('%Y')
cycler('a', 'b').next(), cycler(1, 2).current
cycler()
joiner()() ~ joiner('|')()
caller
loop
[1, 2, 3,], (1, 2,), {'a': 1,}
[,]
d[]
d.
d.5
nums.0, nums.4, nums.9
(d).a, (1 + 2) * 3, ((((1))))
s|upper|lower
-5|abs
-x|abs, (-x)|abs
i|string ~ 'x'
1 is odd and 2 is even
not 1 is odd
i is divisibleby 7, i is divisibleby(5), i is not divisibleby 5
i is defined, nope is defined, nope is not defined, n is none, n is not none, i is none
i is number, x is number, t is number, s is number, i is integer, t is integer, x is float, i is float, t is boolean, i is boolean
s is string, d is mapping, nums is mapping, nums is sequence, s is sequence, d is sequence, i is sequence, d.keys() is sequence, range(2) is sequence, nope is sequence, nope is mapping
nums is iterable, s is iterable, i is iterable, nope is iterable, d.items() is iterable
t is true, f is false, 1 is true, n is false, t is sameas true, n is sameas none, i is sameas i
i is eq 42, i is equalto(42), i is ne 41, i is gt 41, i is ge 42, i is lt 43, i is le 42, i is greaterthan 1, i is lessthan 1
2 is in [1, 2], 3 is not in [1, 2], 'a' is in d
s is upper, s is lower, 'ABC' is upper, 'abc' is lower, 5 is upper, '' is lower
raise_exception is callable, s.upper is callable, s is callable, range is callable, namespace is callable
'upper' is filter, 'nope' is filter, 'odd' is test, 'nope' is test
s is escaped, (s|escape) is escaped
i is nope
i is odd is even
nope is odd
s is odd
s|nope
s|upper(1)
s|trim(a=1)
s|default
(s|nope) if f else 'ok'
1 if t else s|nope
s is nope if f else 1
i is divisibleby
i is divisibleby 0
*nums
**d
dict(**d)
dict(a=1, **{'a': 2})
dict(a=1, a=2)
s.split(*[','])
lambda x: x
x = 1
a.b = 1
i++
i +
* i
i == 
== i
i not
i not in
not in nums
1 <> 2
i && t
i || t
!t
`x`
i if
if t
'\x41\u0042\U00000043\101\n\t\\\'\"\q\é\e'
'\x4'
'\u12'
'\ud800'
'\N{DASH}'
'\
continued'
quote, [quote], {quote: quote}, ["it's"], ['"'], ["'\""], ['\x7f\x9f\xa0\xad\u200b\u2028\ufeff\U000e0001é日👩']
[1.0, 1e20, -0.0, none, true], (1.5,), {1: (2, 3)}
u|length, u|list, u|first, u|last, u|reverse
"""
