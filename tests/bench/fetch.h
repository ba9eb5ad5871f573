/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* SERVER CA CERTIFICATE KEY FOLDER: for each line of the standard input, which is the path of an
 * object, gets the object on one open connection, writes two files, and prints how long both took,
 * in microseconds. Returns 0 or negative errno. */
int run_fetch(int argc, char *argv[]);
