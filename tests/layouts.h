/* What a plan means, where a test has the plan: values that live as long as the block around them. */
#ifndef TDP_TESTS_LAYOUTS_H
#define TDP_TESTS_LAYOUTS_H

#include "layout/layout.h"
#include "op/op.h"
#include "plan/plan.h"

#define LAYOUT(plan) ((const Layout[]) { layout_of(plan) })
#define PASSES(plan) (&LAYOUT(plan)->passes)
#define STATES(plan) (LAYOUT(plan)->states)
#define MESH(plan) ((const Mesh[]) { mesh_of(plan) })

/* Bytes of states that a device keeps for a parameter. */
static inline double state_bytes(const StateLayout *states)
{
  StateBytes bytes = op_states(states);
  return bytes.weights + bytes.gradients + bytes.optimizer;
}

#endif
