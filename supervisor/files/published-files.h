/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Files by which other programs find our devices: CDI documents of resources and of claims for the
 * container runtime, information for CNI plugins, metadata that containers read, of claims and of
 * devices of plugins, and labels of the node for node-feature-discovery. All their names are made
 * here. A file is replaced in one step, and removed with its claim, or with its resource, unless
 * pods still need it. Metadata is written into the same file, because a container has that file
 * mounted, and would not see another one of the same name. All stay when the daemon stops, because
 * containers may be started and the networks of pods set up while it is away; the next daemon
 * corrects them.
 */

#include "configuration/config.h"

struct published;

/* Knows no files yet. Returns 0 or -ENOMEM. */
int published_new(const char *runtime_dir, struct published **ret);

/* The declarations that resources are judged by, see resource_applied(). */
struct published_judges {
	const struct declaration **declarations;
	size_t count;
	bool complete; /* each was accepted by a child */
};

/* Takes over directories and resources: learns from the lists in the directories which files a
 * daemon before left, removes files of ours that belong to no resource, or are in a directory that
 * is no longer ours. Unless the judges are complete, CDI files that no resource has proposed yet
 * stay: they may be of a configuration that will be applied again. Logs. */
void published_configure(struct published *published, const struct config *config,
	const struct published_judges *judges);

/* Whether the last judges were complete. */
bool published_is_complete(const struct published *published);

/* To be called when another declaration applies to a resource: removes files that the resource no
 * longer publishes. */
void published_judge(struct published *published, const struct declaration *declaration);

/* A CDI file that no resource publishes any more is left for pods: without it, a container with a
 * name of its kind could not be started again. Removes the files that were left by `until`
 * (CLOCK_MONOTONIC) and whose kind is not among `named`, those of the answers to Allocate that the
 * kubelet stores. Returns whether a later file may have to be removed, too. */
bool published_drop_left(struct published *published, const struct strings *named, uint64_t until);

/* Makes the files of a resource exactly those of a publication (sealed memfd). -EBADMSG means that
 * the document is malformed, and nothing has changed; other errors are those of the file system and
 * may leave some files. The error is filled. */
int published_take(struct published *published, const struct declaration *declaration, int fd,
	struct error *error);

/* Makes the file with the labels of a resource have this text, which was checked; empty, or with
 * cluster.labels: removes it. The directory is not created: without it, no program reads labels.
 * Returns 0, 1 if there is to be no file, or negative errno with the error filled. */
int published_put_labels(struct published *published, const struct declaration *declaration,
	const char *text, struct error *error);

/* The metadata of a request of a claim. */
struct published_metadata {
	const char *request;
	char *text;
};

/* The directory of metadata, and the path of a file there. Returns 0 or -ENOMEM. */
int published_metadata_directory(const struct config *config, char **ret);
int published_metadata_path(
	const struct published *published, const char *key, const char *request, char **ret);

/* Makes the files of a claim exactly its CDI document with this text, and this metadata, which is
 * written first. The key becomes a part of its name: the claim's uid, or UID.DRIVER. Returns 0, or
 * negative errno with the error filled. */
int published_put_claim(struct published *published, const char *key, const char *text,
	const struct published_metadata *metadata, size_t n_metadata, struct error *error);

/* Files that containers with devices of a plugin read: they belong to a resource by name, and stay
 * until they are dropped, also without the resource. */

/* The path for a set of offered ids, which are sorted. Returns 0 or -ENOMEM. */
int published_devices_path(const struct published *published, const char *resource,
	const struct strings *ids, char **ret);

/* The text of a file that is there. Returns 0, -ENOMEM, or another negative errno if it is not a
 * file as devplugd writes them, or larger than `maximum`. */
int published_read(const char *path, size_t maximum, char **ret);

/* Makes the file have this text. Returns 0, or negative errno with the error filled. */
int published_put_devices(struct published *published, const char *resource, const char *path,
	const char *text, struct error *error);
void published_drop_devices(struct published *published, const char *path);

/* Removes those that a daemon before has left and this one has not put. */
void published_drop_other_devices(struct published *published);

/* Removes the files of a claim, if there are any of this daemon or of one before. */
void published_drop_claim(struct published *published, const char *key);

/* Removes the files of claims that a daemon before has left and this one has not put. */
void published_drop_other_claims(struct published *published);

/* How often published_take() has failed. */
uint64_t published_failures(const struct published *published);

/* Writes the lists of files that could not be written before. Returns whether all are up to date.
 */
bool published_save_list(struct published *published);

/* Checks whether each published file, and each list, is the one that was written. Returns the path
 * of the first that is not, which is valid until files change, or NULL. */
const char *published_find_damage(const struct published *published);

/* Checks files that are damaged now no more, until they are written again; writes lists again. */
void published_forget_damage(struct published *published);

struct published *published_free(struct published *published);
DEFINE_CLEANUP(struct published *, published_free)
