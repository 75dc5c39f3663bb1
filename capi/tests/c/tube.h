/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Messages and rooms of tubes. */
#ifndef TUBE_H
#define TUBE_H

#include "runtime.h"
#include "umcg/select.h"

#define MANY 12
#define LARGEST 1200

static const size_t rooms[] = {0, 1, 3};
#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

struct message {
    int sender, number;
    unsigned char filler[LARGEST];
};

#endif /* TUBE_H */
