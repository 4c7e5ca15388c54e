/* levels LEVEL: one level of kernels against the definition. One process per level, because oneDNN's own level can be
 * set only once in a process. Exits with 77 where this CPU lacks the level. */
#include <stdio.h>
#include <string.h>

#include "tests/kernel/kernel_test.h"

static bool test_numerics(enum cpu_level level, enum numerics numerics)
{
	const char *name = numerics_name(numerics);
	struct subject subject = {
		.level = level,
		.numerics = numerics,
		.kernels = kernels_get(level, numerics),
		.ref = kernels_get(CPU_LEVEL_REF, numerics),
	};

	if (!subject.kernels) {
		printf("SKIPPED: %s with %s numerics\n", cpu_level_name(level), name);
		return false;
	}
	printf("testing %s with %s numerics\n", cpu_level_name(level), name);
	expect(subject.kernels->level == level, "kernels_get(%s) gave level %s", cpu_level_name(level),
	       cpu_level_name(subject.kernels->level));
	if (numerics == NUMERICS_INT8) { /* the rest is the level's own, and tested with its own */
		test_int8(&subject);
		return true;
	}
	test_expand(&subject);
	test_decode(&subject);
	test_row(&subject);
	test_attention(&subject);
	test_attention_int8(&subject);
	test_low_rank(&subject);
	test_gemm(&subject);
	test_pack(&subject);
	return true;
}

int main(int argc, char **argv)
{
	bool ran = false;

	for (int level = CPU_LEVEL_REF; argc == 2 && level <= CPU_LEVEL_AVX512; level++) {
		if (strcmp(argv[1], cpu_level_name((enum cpu_level)level)) != 0)
			continue;
		ran |= test_numerics((enum cpu_level)level, NUMERICS_F32);
		ran |= test_numerics((enum cpu_level)level, NUMERICS_BF16);
		ran |= test_numerics((enum cpu_level)level, NUMERICS_INT8);
		printf("%u failures\n", expect_failures());
		return expect_failures() ? 1 : ran ? 0 : 77;
	}
	fprintf(stderr, "usage: levels ref|avx2|avx512\n");
	return 2;
}
