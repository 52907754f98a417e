#ifndef TESS_BASE_CORE_MEDIAN_H
#define TESS_BASE_CORE_MEDIAN_H

/* Sorts the values (n >= 1) and returns the middle one, or the mean of the middle two. */
double tess_median(double *values, int n);

#endif
