/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Creates and frees the model, and provides arbitrary orders: where the kubelet iterates over a Go
 * map, no order is guaranteed, so plugins under test get a different one each time.
 */
#include "kubelet/model.h"

#include "kubelet/plugin-resource.h"

int model_new(const struct kubelet_version *version, bool stale_stream_race, uint64_t grace,
	uint64_t seed, struct model **ret)
{
	struct model *model = calloc(1, sizeof(*model));

	if (!model)
		return -ENOMEM;
	model->version = version;
	model->grace = grace;
	model->random = seed;
	model->clients.stale_stream_race = stale_stream_race;
	*ret = model;
	return 0;
}

struct model *model_free(struct model *model)
{
	if (!model)
		return NULL;
	for (size_t i = 0; i < model->n_resources; i++)
		(void)model_free_resource(model->resources[i]);
	free(model->resources);
	for (size_t i = 0; i < model->n_allocations; i++)
		(void)allocation_free(model->allocations[i]);
	free(model->allocations);
	while (model->n_pods > 0)
		model_remove_pod(model, model->pods[model->n_pods - 1]);
	free(model->pods);
	client_table_done(&model->clients);
	json_decref(model->others);
	free(model);
	return NULL;
}

size_t model_random(struct model *model, size_t bound)
{
	uint64_t z;

	assert(bound > 0);

	/* SplitMix64: any seed will do, zero included. */
	z = model->random += 0x9e3779b97f4a7c15ULL;
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return (z ^ (z >> 31)) % bound;
}
