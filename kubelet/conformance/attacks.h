/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The input of broken, slow or malicious peers. Each function appends everything that is sent over
 * one connection.
 */

#include "kubelet/conformance/raw-peer.h"

/* A window as large as the protocol's default. */
#define ATTACK_WINDOW 65535

void attack_garbage(struct bytes *bytes);
void attack_half_a_preface(struct bytes *bytes);
void attack_oversized_frame(struct bytes *bytes);
void attack_broken_headers(struct bytes *bytes);

/* 64 KiB of headers that are 256 MiB when expanded. */
void attack_header_bomb(struct bytes *bytes);

/* 16 MiB of headers that are well formed and never end. */
void attack_continuation_flood(struct bytes *bytes);

/* 5000 calls that are cancelled at once. */
void attack_reset_flood(struct bytes *bytes);
void attack_ping_flood(struct bytes *bytes);
void attack_settings_flood(struct bytes *bytes);

/* 64 streams that may never send anything. */
void attack_closed_windows(struct bytes *bytes);

/* 64 streams with open windows, on a socket without a reader. */
void attack_slow_reader(struct bytes *bytes);

/* A message with a length of 1 GiB in its prefix. */
void attack_huge_message(struct bytes *bytes);
