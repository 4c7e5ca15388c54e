/* The one place that knows which levels exist and picks among them. */
#include "src/kernel/kernel.h"

#include <cpuid.h>

#include "src/kernel/levels.h"

#define KERNEL_TABLE(name)                                                                                       \
	.prepare = prepare_##name, .decode_product = decode_product_##name, .expand_panel = expand_panel_##name, \
	.expand_row = expand_row_##name, .rms_norm = rms_norm_##name, .rope_pairs = rope_pairs_##name,           \
	.swiglu = swiglu_##name, .add = add_##name, .to_bf16 = to_bf16_##name, .attention = attention_##name

static const struct kernels ref = {.level = CPU_LEVEL_REF, KERNEL_TABLE(ref)};

/* The registers whose state the operating system saves: XCR0, bit by bit. (Intel SDM volume 1, chapter 13) */
enum { XCR0_SSE = 1 << 1, XCR0_AVX = 1 << 2, XCR0_AVX512 = 7 << 5 };

static uint32_t saved_state(void)
{
	uint32_t low, high;
	__asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
	return low;
}

static int has_all(uint32_t word, uint32_t bits)
{
	return (word & bits) == bits;
}

enum cpu_level kernels_detect(void)
{
	uint32_t eax, ebx, ecx, edx, unused, saved;

	if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx) || !has_all(ecx, bit_OSXSAVE | bit_AVX | bit_FMA | bit_F16C))
		return CPU_LEVEL_REF;
	saved = saved_state();
	if (!has_all(saved, XCR0_SSE | XCR0_AVX) || !__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) ||
	    !has_all(ebx, bit_AVX2))
		return CPU_LEVEL_REF;
	if (!has_all(saved, XCR0_AVX512) || !has_all(ebx, bit_AVX512F | bit_AVX512DQ | bit_AVX512BW | bit_AVX512VL) ||
	    eax < 1 || !__get_cpuid_count(7, 1, &eax, &unused, &unused, &unused) || !has_all(eax, bit_AVX512BF16))
		return CPU_LEVEL_AVX2;
	return CPU_LEVEL_AVX512;
}

const char *cpu_level_name(enum cpu_level level)
{
	switch (level) {
	case CPU_LEVEL_REF:
		return "ref";
	case CPU_LEVEL_AVX2:
		return "avx2";
	case CPU_LEVEL_AVX512:
		return "avx512";
	}
	return "?";
}

enum numerics kernels_numerics(enum cpu_level level)
{
	return level == CPU_LEVEL_AVX512 ? NUMERICS_BF16 : NUMERICS_F32;
}

const struct kernels *kernels_get(enum cpu_level level, enum numerics numerics)
{
	if (level > kernels_detect())
		return NULL;
	switch (level) {
	case CPU_LEVEL_REF:
		return &ref;
	case CPU_LEVEL_AVX2:
	case CPU_LEVEL_AVX512:
		break;
	}
	(void)numerics;
	return NULL;
}
