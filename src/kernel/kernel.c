/* The one place that knows which levels exist and picks among them. */
#include "src/kernel/kernel.h"

#include <cpuid.h>

#include "src/kernel/levels.h"

static const struct kernels ref = {
	.level = CPU_LEVEL_REF,
	.pack_block_row = pack_block_row,
	.prepare = prepare_ref,
	.decode_product = decode_product_ref,
	.int8_prepare = int8_prepare_ref,
	.int8_product = int8_product_ref,
	.expand_panel = expand_panel_ref,
	.expand_row = expand_row_ref,
	.rms_norm = rms_norm_ref,
	.layer_norm = layer_norm_ref,
	.rope_pairs = rope_pairs_ref,
	.rope_halves = rope_halves_ref,
	.swiglu = swiglu_ref,
	.geglu = geglu_ref,
	.gelu = gelu_ref,
	.add = add_ref,
	.to_bf16 = to_bf16_ref,
	.to_int8 = to_int8_ref,
	.low_rank_in = low_rank_in_ref,
	.low_rank_out = low_rank_out_ref,
	.attention = attention_ref,
	.attention_int8 = attention_int8_ref,
};

static const struct kernels avx2 = {
	.level = CPU_LEVEL_AVX2,
	.pack_block_row = pack_block_row_avx2,
	.prepare = prepare_avx2,
	.decode_product = decode_product_avx2,
	.expand_panel = expand_panel_avx2,
	.expand_row = expand_row_ref, /* one row per token: not worth a second version */
	.rms_norm = rms_norm_avx2,
	.layer_norm = layer_norm_avx2,
	.rope_pairs = rope_pairs_avx2,
	.rope_halves = rope_halves_avx2,
	.swiglu = swiglu_avx2,
	.geglu = geglu_avx2,
	.gelu = gelu_avx2,
	.add = add_avx2,
	.to_bf16 = to_bf16_avx2,
	.to_int8 = to_int8_avx2,
	.low_rank_in = low_rank_in_avx2,
	.low_rank_out = low_rank_out_avx2,
	.attention = attention_avx2,
	.attention_int8 = attention_int8_avx2,
};

static const struct kernels avx512 = {
	.level = CPU_LEVEL_AVX512,
	.pack_block_row = pack_block_row_avx2, /* bound by memory already */
	.prepare = prepare_avx512,
	.decode_product = decode_product_avx512,
	.int8_prepare = int8_prepare_avx512,
	.int8_product = int8_product_avx512,
	.expand_panel = expand_panel_avx512,
	.expand_row = expand_row_ref,
	.rms_norm = rms_norm_avx512,
	.layer_norm = layer_norm_avx512,
	.rope_pairs = rope_pairs_avx512,
	.rope_halves = rope_halves_avx512,
	.swiglu = swiglu_avx512,
	.geglu = geglu_avx512,
	.gelu = gelu_avx512,
	.add = add_avx512,
	.to_bf16 = to_bf16_avx512,
	.to_int8 = to_int8_avx512,
	.low_rank_in = low_rank_in_avx512,
	.low_rank_out = low_rank_out_avx512,
	.attention = attention_avx512,
	.attention_int8 = attention_int8_avx512,
};

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
	    !has_all(ecx, bit_AVX512VNNI) || eax < 1 || !__get_cpuid_count(7, 1, &eax, &unused, &unused, &unused) ||
	    !has_all(eax, bit_AVX512BF16))
		return CPU_LEVEL_AVX2;
	return CPU_LEVEL_AVX512;
}

/* What int8_avx512.c needs beside the level's own. */
static int has_bytes(void)
{
	uint32_t eax, ebx, ecx, edx;
	return kernels_detect() >= CPU_LEVEL_AVX512 && __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) &&
	       has_all(ecx, bit_AVX512VNNI | bit_AVX512VBMI);
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

const char *numerics_name(enum numerics numerics)
{
	switch (numerics) {
	case NUMERICS_F32:
		return "f32";
	case NUMERICS_BF16:
		return "bf16";
	case NUMERICS_INT8:
		return "int8";
	}
	return "?";
}

enum numerics kernels_numerics(enum cpu_level level)
{
	return level == CPU_LEVEL_AVX512 ? NUMERICS_BF16 : NUMERICS_F32;
}

enum numerics kernels_plain(enum cpu_level level, enum numerics numerics)
{
	return numerics == NUMERICS_INT8 ? kernels_numerics(level) : numerics;
}

const struct kernels *kernels_get(enum cpu_level level, enum numerics numerics)
{
	if (level > kernels_detect())
		return NULL;
	switch (level) {
	case CPU_LEVEL_REF:
		return &ref;
	case CPU_LEVEL_AVX2:
		return numerics == NUMERICS_F32 ? &avx2 : NULL;
	case CPU_LEVEL_AVX512:
		return numerics == NUMERICS_BF16 || (numerics == NUMERICS_INT8 && has_bytes()) ? &avx512 : NULL;
	}
	return NULL;
}
