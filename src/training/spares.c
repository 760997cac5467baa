#include "training/spares.h"

#include <gsl/gsl_cdf.h>
#include <gsl/gsl_randist.h>

double away_just(int n, double load)
{
  return load > 0 ? gsl_ran_poisson_pdf(n, load) : n == 0;
}

double away_more(int n, double load)
{
  return load > 0 ? gsl_cdf_poisson_Q(n, load) : 0;
}

double spares_wait(int spares, double load)
{
  double blocked = 1;

  for (int place = 1; place <= spares + 1; place++)
    blocked = load * blocked / (place + load * blocked);
  return blocked;
}
