/* Operations on one row: against double, with every length up to a few registers and a large one, in place where the
 * interface allows it, and with NaN and infinities among the inputs. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "src/kernel/half.h"
#include "tests/kernel/kernel_test.h"

enum { LARGEST = 2049 };

static float *floats_new(size_t n, enum filling filling)
{
	float *x = guarded_new(n * sizeof *x);
	fill_values(x, n, filling);
	return x;
}

/* A length after 1 .. 70: a long one, then 0 to end. */
static uint32_t next_length(uint32_t n)
{
	return n < 70 ? n + 1 : n < LARGEST ? LARGEST : 0;
}

static bool near(float got, double exact, double relative)
{
	if (!(fabs(exact) < (double)FLT_MAX))
		return !isfinite(got) || fabs((double)got) > 0.99 * (double)FLT_MAX;
	return fabs((double)got - exact) <= relative * fabs(exact) + 0x1p-149;
}

static void test_rms_norm(const struct subject *subject, uint32_t n, enum filling filling)
{
	float *x = floats_new(n, filling), *weight = floats_new(n, FILL_RANDOM);
	float *y = guarded_new(n * sizeof *y);
	double sum = 0.0, inverse;

	for (uint32_t i = 0; i < n; i++)
		sum += (double)x[i] * (double)x[i];
	inverse = 1.0 / sqrt(sum / n + (double)1e-5f);
	subject->kernels->rms_norm(y, x, weight, n, 1e-5f);
	expect(guarded_intact(y, n * sizeof *y), "rms_norm n=%u wrote beside y", n);
	for (uint32_t i = 0; i < n && sum < 1e300; i++)
		expect(near(y[i], (double)x[i] * inverse * (double)weight[i], 1e-6) || fabsf(y[i]) < FLT_MIN,
		       "rms_norm %s n=%u: y[%u] = %a", filling_name(filling), n, i, (double)y[i]);
	subject->kernels->rms_norm(x, x, weight, n, 1e-5f);
	expect(same_bits(x, y, n), "rms_norm n=%u differs in place", n);
	guarded_free(x);
	guarded_free(weight);
	guarded_free(y);
}

static void test_layer_norm(const struct subject *subject, uint32_t n, enum filling filling)
{
	float *x = floats_new(n, filling), *weight = floats_new(n, FILL_RANDOM), *bias = floats_new(n, FILL_RANDOM);
	float *y = guarded_new(n * sizeof *y);
	double sum = 0.0, squares = 0.0, inverse, mean;

	for (uint32_t i = 0; i < n && filling == FILL_RANDOM; i++)
		x[i] += 100.0f; /* a mean that is large beside what is left: squares less its square would not do */
	for (uint32_t i = 0; i < n; i++)
		sum += (double)x[i];
	mean = sum / n;
	for (uint32_t i = 0; i < n; i++)
		squares += ((double)x[i] - mean) * ((double)x[i] - mean);
	inverse = 1.0 / sqrt(squares / n + (double)1e-5f);
	subject->kernels->layer_norm(y, x, weight, bias, n, 1e-5f);
	expect(guarded_intact(y, n * sizeof *y), "layer_norm n=%u wrote beside y", n);
	for (uint32_t i = 0; i < n && squares < 1e76; i++) { /* what is left of the mean is finite as float32 */
		double product = ((double)x[i] - mean) * inverse * (double)weight[i];
		double exact = product + (double)bias[i];
		/* Four roundings of the product (the difference, 1 / sqrt, two multiplications), one of the sum. */
		double most = (4 * fabs(product) + fabs(exact)) * 0x1.01p-24 + 0x1p-126;
		expect(fabs(exact) > (double)FLT_MAX || fabs((double)y[i] - exact) <= most,
		       "layer_norm %s n=%u: y[%u] = %a, exactly %a", filling_name(filling), n, i, (double)y[i], exact);
	}
	for (uint32_t i = 0; i < n && isnan(squares); i++)
		expect(isnan(y[i]), "layer_norm %s n=%u: y[%u] = %a of NaN", filling_name(filling), n, i, (double)y[i]);
	subject->kernels->layer_norm(x, x, weight, bias, n, 1e-5f);
	expect(same_bits(x, y, n), "layer_norm n=%u differs in place", n);
	guarded_free(x);
	guarded_free(weight);
	guarded_free(bias);
	guarded_free(y);
}

/* The partner of value i of a head, and the place of its cosine and sine; false where it is left alone. */
struct rotation {
	bool first; /* of the two */
	uint32_t partner, cosine, sine;
};

static struct rotation rotation_of(bool halves, uint32_t i, uint32_t rope_dim)
{
	uint32_t half = rope_dim / 2, pair = i % half;
	if (halves)
		return (struct rotation){i < half, i < half ? i + half : i - half, pair, half + pair};
	return (struct rotation){i % 2 == 0, i ^ 1, i & ~1u, i | 1};
}

static void test_rope(const struct subject *subject, bool halves, uint32_t n_heads, uint32_t head_dim,
		      uint32_t rope_dim)
{
	size_t n = (size_t)n_heads * head_dim;
	float *x = floats_new(n, FILL_RANDOM), *before = guarded_new(n * sizeof *before);
	float *cos_sin = guarded_new(rope_dim * sizeof *cos_sin);

	for (uint32_t i = 0; i < rope_dim / 2; i++) {
		struct rotation of = rotation_of(halves, halves ? i : 2 * i, rope_dim);
		float angle = random_float(100.0f);
		cos_sin[of.cosine] = cosf(angle);
		cos_sin[of.sine] = sinf(angle);
	}
	memcpy(before, x, n * sizeof *x);
	(halves ? subject->kernels->rope_halves : subject->kernels->rope_pairs)(x, cos_sin, n_heads, head_dim,
										rope_dim);
	for (uint32_t head = 0; head < n_heads; head++)
		for (uint32_t i = 0; i < head_dim; i++) {
			const float *at = before + head * head_dim;
			double exact = (double)at[i], magnitude = 0.0;
			float got = x[head * head_dim + i];

			if (i < rope_dim) {
				struct rotation of = rotation_of(halves, i, rope_dim);
				double c = (double)cos_sin[of.cosine], s = (double)cos_sin[of.sine];
				double other = (double)at[of.partner];
				magnitude = fabs(exact) + fabs(other);
				exact = exact * c + (of.first ? -other : other) * s;
			}
			expect(fabs((double)got - exact) <= 0x1p-22 * magnitude,
			       "rope %u of %u: head %u [%u] = %a, exactly %a", rope_dim, head_dim, head, i, (double)got,
			       exact);
		}
	expect(guarded_intact(x, n * sizeof *x), "rope %u of %u wrote beside x", rope_dim, head_dim);
	guarded_free(x);
	guarded_free(before);
	guarded_free(cos_sin);
}

static void test_swiglu(const struct subject *subject, uint32_t n, enum filling filling)
{
	float *gate = floats_new(n, filling), *up = floats_new(n, FILL_RANDOM), *y = guarded_new(n * sizeof *y);

	for (uint32_t i = 0; i < n && filling == FILL_RANDOM; i++)
		gate[i] = random_float(i % 3 == 0 ? 110.0f : 8.0f);
	subject->kernels->swiglu(y, gate, up, n);
	expect(guarded_intact(y, n * sizeof *y), "swiglu n=%u wrote beside y", n);
	for (uint32_t i = 0; i < n; i++) {
		double g = (double)gate[i], exact = g / (1.0 + exp(-g)) * (double)up[i];
		/* One unit of the exponential (2^-23) and three roundings (2^-24 each). Below -87 the float32
		 * exponential overflows where the exact result is a denormal or nearly one. */
		expect(isnan(exact) ? isnan(y[i])
				    : near(y[i], exact, 5 * 0x1p-24) || fabs(exact - (double)y[i]) < 1e-35,
		       "swiglu(%a, %a) = %a, exactly %a", g, (double)up[i], (double)y[i], exact);
	}
	subject->kernels->swiglu(gate, gate, up, n);
	expect(same_bits(gate, y, n), "swiglu n=%u differs in place", n);
	guarded_free(gate);
	guarded_free(up);
	guarded_free(y);
}

static void test_geglu(const struct subject *subject, uint32_t n, enum filling filling)
{
	float *gate = floats_new(n, filling), *up = floats_new(n, FILL_RANDOM), *y = guarded_new(n * sizeof *y);

	for (uint32_t i = 0; i < n && filling == FILL_RANDOM; i++)
		gate[i] = random_float(i % 3 == 0 ? 14.0f : 3.0f);
	subject->kernels->geglu(y, gate, up, n);
	expect(guarded_intact(y, n * sizeof *y), "geglu n=%u wrote beside y", n);
	for (uint32_t i = 0; i < n; i++) {
		double g = (double)gate[i], u = sqrt(2.0 / M_PI) * (g + 0.044715 * g * g * g);
		double exact = g / (1.0 + exp(-2.0 * u)) * (double)up[i];
		/* Four roundings of 2u move e^(-2u) by 2u times as much; the rest is as in swiglu. */
		double relative = (5.0 + 4.0 * fabs(2.0 * u)) * 0x1p-24;
		expect(isnan(exact) ? isnan(y[i])
				    : near(y[i], exact, fmin(relative, 1e-4)) || fabs(exact - (double)y[i]) < 1e-35,
		       "geglu(%a, %a) = %a, exactly %a", g, (double)up[i], (double)y[i], exact);
	}
	subject->kernels->geglu(gate, gate, up, n);
	expect(same_bits(gate, y, n), "geglu n=%u differs in place", n);
	guarded_free(gate);
	guarded_free(up);
	guarded_free(y);
}

static void test_gelu(const struct subject *subject, uint32_t n, enum filling filling)
{
	float *x = floats_new(n, filling), *y = guarded_new(n * sizeof *y);

	for (uint32_t i = 0; i < n && filling == FILL_RANDOM; i++)
		x[i] = random_float(i % 3 == 0 ? 14.0f : 3.0f);
	subject->kernels->gelu(y, x, n);
	expect(guarded_intact(y, n * sizeof *y), "gelu n=%u wrote beside y", n);
	for (uint32_t i = 0; i < n; i++) {
		double v = (double)x[i], exact = v * 0.5 * erfc(-v * M_SQRT1_2);
		/* The polynomial's 6 units, one of the exponential (2^-23), three roundings; and that of x^2 moves
		 * e^(-x^2 / 2) by x^2 / 2 times as much. Near -14 the share is a denormal. */
		double relative = (11.0 + v * v / 2) * 0x1p-24;
		expect(isnan(exact) ? isnan(y[i])
				    : near(y[i], exact, fmin(relative, 1e-4)) || fabs(exact - (double)y[i]) < 1e-36,
		       "gelu(%a) = %a, exactly %a", v, (double)y[i], exact);
	}
	subject->kernels->gelu(x, x, n);
	expect(same_bits(x, y, n), "gelu n=%u differs in place", n);
	guarded_free(x);
	guarded_free(y);
}

static void test_add(const struct subject *subject, uint32_t n, enum filling filling)
{
	float *x = floats_new(n, filling), *y = floats_new(n, filling), *sum = guarded_new(n * sizeof *sum);

	for (uint32_t i = 0; i < n; i++)
		sum[i] = x[i] + y[i];
	subject->kernels->add(x, y, n);
	expect(same_bits(x, sum, n), "add %s n=%u differs", filling_name(filling), n);
	expect(guarded_intact(x, n * sizeof *x), "add n=%u wrote beside x", n);
	guarded_free(x);
	guarded_free(y);
	guarded_free(sum);
}

static void test_to_bf16(const struct subject *subject, uint32_t n, enum filling filling)
{
	float *x = floats_new(n, filling);
	uint16_t *y = guarded_new(n * sizeof *y);

	if (n > 8) { /* ties to even, the carry into infinity, NaNs that only their low bits tell from infinity */
		static const uint32_t hostile[] = {0x3f808000, 0x3f818000, 0x7f7fffff, 0x7f800001,
						   0xffffffff, 0xff800000, 0x80000001, 0x00008000};
		memcpy(x, hostile, sizeof hostile);
	}
	subject->kernels->to_bf16(y, x, n);
	expect(guarded_intact(y, n * sizeof *y), "to_bf16 n=%u wrote beside y", n);
	for (uint32_t i = 0; i < n; i++) {
		expect(y[i] == bf16_from_f32(x[i]), "to_bf16(%a) = %04x", (double)x[i], y[i]);
		expect(isnan(x[i]) == isnan(f32_from_bf16(y[i])), "to_bf16: NaN came or went at %a", (double)x[i]);
	}
	guarded_free(x);
	guarded_free(y);
}

/* bf16_from_f32 itself, against the two neighbours between which a value lies. */
static void test_bf16_rounding(void)
{
	for (int i = 0; i < 100000; i++) {
		uint32_t bits = random_bits(), down = bits & 0xffff0000, up = down + 0x10000;
		uint32_t nearest = (bits & 0xffff) < 0x8000   ? down
				   : (bits & 0xffff) > 0x8000 ? up
				   : bits & 0x10000	      ? up
							      : down;
		if (isnan(f32_from_bits(bits)))
			continue;
		expect(bf16_from_f32(f32_from_bits(bits)) == nearest >> 16, "bf16 of %08x is %04x", bits,
		       bf16_from_f32(f32_from_bits(bits)));
	}
}

void test_row(const struct subject *subject)
{
	static const uint32_t ropes[][3] = {{1, 16, 16}, {9, 64, 64},  {3, 128, 128},
					    {5, 80, 20}, {2, 256, 64}, {4, 64, 2}};

	for (int filling = 0; filling < N_FILLINGS; filling++)
		for (uint32_t n = 1; n; n = next_length(n)) {
			test_rms_norm(subject, n, (enum filling)filling);
			test_layer_norm(subject, n, (enum filling)filling);
			test_gelu(subject, n, (enum filling)filling);
			test_swiglu(subject, n, (enum filling)filling);
			test_geglu(subject, n, (enum filling)filling);
			test_add(subject, n, (enum filling)filling);
			test_to_bf16(subject, n, (enum filling)filling);
		}
	for (size_t i = 0; i < sizeof ropes / sizeof ropes[0]; i++)
		for (int halves = 0; halves < 2; halves++)
			test_rope(subject, halves, ropes[i][0], ropes[i][1], ropes[i][2]);
	test_bf16_rounding();
}
