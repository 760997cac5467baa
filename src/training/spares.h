/*
 * Nodes that are away for repair, over a long time. Nodes break at a constant rate
 * and each is away as long as it takes; the load is how many are away on average,
 * the rate times that time. The forms hold whatever the repairs' times are like,
 * if nodes break independently of one another.
 */
#ifndef TDP_TRAINING_SPARES_H
#define TDP_TRAINING_SPARES_H

/* The chance that just `n`, or more than `n`, are away where nothing waits for them: M/G/infinity, Poisson's. */
double away_just(int n, double load);
double away_more(int n, double load);

/* The share of time that a job waits which breaks nodes only while it runs and has so many to spare: Erlang's loss
 * formula (1917) of one place more than there are spares. */
double spares_wait(int spares, double load);

#endif
