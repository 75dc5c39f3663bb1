/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Figure 1 of the UthLib paper, the example itself; the runner compares its output with
 * uth_figure1.expected. */
#include "../../../examples/c/figure1.c"
