/* Nested parallelism: an OpenMP region of four threads, each of which multiplies matrices of SIZE
 * by SIZE with a BLAS that has threads of its own. An operation is one product. */
#include "common.h"
#include <omp.h>

void cblas_dgemm(int order, int transpose_a, int transpose_b, int m, int n, int k, double alpha,
                 const double *a, int lda, const double *b, int ldb, double beta, double *c,
                 int ldc);
void openblas_set_num_threads(int threads);
enum { ROW_MAJOR = 101, NO_TRANSPOSE = 111, THREADS = 4 };

static double *filled(int size, double value)
{
    size_t count = (size_t)size * (size_t)size;
    double *matrix = malloc(count * sizeof *matrix);
    CHECK(matrix != NULL);
    for (size_t i = 0; i < count; i++)
        matrix[i] = value;
    return matrix;
}

int main(int argc, char **argv)
{
    int size = (int)argument(argc, argv, 2, 96), last = size * size - 1;
    double *a = filled(size, 1.5), *b = filled(size, 2.0), *c[THREADS];
    for (int i = 0; i < THREADS; i++)
        c[i] = filled(size, 0.0);
    omp_set_dynamic(0);
    /* More than there are CPUs: a variable of the environment would not be obeyed. */
    openblas_set_num_threads(THREADS);
    struct pace pace = pace_of(argument(argc, argv, 1, 1), 0);
    while (goes_on(&pace)) {
#pragma omp parallel num_threads(THREADS)
        {
            double *mine = c[omp_get_thread_num()];
            cblas_dgemm(ROW_MAJOR, NO_TRANSPOSE, NO_TRANSPOSE, size, size, size, 1.0, a, size, b,
                        size, 0.0, mine, size);
        }
    }
    for (int i = 0; i < THREADS; i++)
        CHECK(c[i][0] == 3.0 * size && c[i][last] == 3.0 * size);
    printf("element %g\n", c[0][last]);
    report_pace(&pace, THREADS);
    return 0;
}
