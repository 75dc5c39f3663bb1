/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A library whose constructor and destructor call the program. */

void while_loading(void);
void while_unloading(void);

__attribute__((constructor)) static void begins(void)
{
    while_loading();
}

__attribute__((destructor)) static void ends(void)
{
    while_unloading();
}
