/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Which presets find hardware on this host. A preset is tried by declaring a resource with only
 * this preset and running its driver's scan: the devices are those that devplugd would offer.
 */
#include <jansson.h>

#include "common/error.h"
#include "drivers/model/declaration.h"

/* A model of a preset's devices. */
struct model {
	char *resource; /* the name that is proposed for its resource */
	char *where;    /* the resource's key that selects it, in the configuration's syntax */
};

/* The devices that a preset finds on this host. */
struct finding {
	char *name, *summary;
	char *where;            /* selects the only model that was searched; NULL: all were */
	char *owner;            /* the resource that has all of these devices already, or NULL */
	char *resource;         /* the name that is proposed for a resource */
	char *problem;          /* why no device is healthy; NULL: some are */
	json_t *ids;            /* of the devices */
	json_t *cdi, *prestart; /* as in the preset */
	bool general;           /* it takes the devices of any vendor */
	size_t n_devices;
	struct strings profiles; /* of instances (MIG), each once */
	struct model *models;    /* each once; none if the driver does not know */
	size_t n_models;
	struct strings claims; /* the hardware behind the devices */
};

struct findings {
	struct finding *items;
	size_t count;
};

void findings_done(struct findings *findings);

/* Tries a preset on the host whose files are below `root`, and adds its devices, if there are any.
 * Notes of the scan go to stderr. Returns 0, or negative errno with the error filled. */
int findings_add(
	struct findings *findings, const char *preset, const char *root, struct error *error);

/* Replaces a finding of several models by one for each. Profiles are not models. Returns 0, or
 * negative errno with the error filled. */
int findings_split(struct findings *findings, size_t place, const char *root, struct error *error);

/* Adds the hardware of a declared resource to `owners`: hardware to name of a resource; hardware
 * with an owner keeps it. Returns 0, or negative errno with the error filled. */
int owners_add(json_t *owners, const struct declaration *declaration, const char *root,
	struct error *error);

/* Sets the owner of each finding whose hardware has owners. The others become owners of theirs,
 * in their order. */
void findings_set_owners(struct findings *findings, json_t *owners);

/* Puts presets whose devices can be used first, and specific ones before others, because a device
 * belongs to the first resource that finds it. */
void findings_sort(struct findings *findings);

/* The profiles of a finding. */
json_t *findings_list_profiles(const struct finding *finding);

/* The names of the presets before this place that find some of its devices. */
json_t *findings_list_overlaps(const struct findings *findings, size_t place);
