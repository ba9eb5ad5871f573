# SPDX-License-Identifier: Apache-2.0
"""An API server of Kubernetes for tests of DRA drivers, with the scheduler's allocation of claims."""
