/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Quantities of Kubernetes (k8s.io/apimachinery/pkg/api/resource): "80Gi", "16384", "5k", "1e3",
 * "500m". Here, they are whole numbers from 0 to INT64_MAX.
 */

#include "common/error.h"

/* Reads a quantity; a fraction is rounded up, as the API server does. Returns 0, 1 if the number
 * was rounded, -EINVAL if the text is not a quantity, or -ERANGE if it is negative or too large. */
int quantity_read(const char *text, int64_t *ret);

/* Writes the form in which the API server stores the number, with a suffix if possible: another
 * form would be written again and again. */
#define QUANTITY_MAX 24
void quantity_write(int64_t number, char ret[static QUANTITY_MAX + 1]);

/* The number that a suffix stands for: 1073741824 for "Gi"; 0: it is not one. */
int64_t quantity_unit(const char *suffix);

/* For option tables: a whole number within the range above. */
int form_quantity(const char *value, struct error *error);
