#include "rl/algo/rl_kl.h"

#include <math.h>

static const double largest_exponent = 20, largest_k3 = 10;

static double clamp(double x, double low, double high)
{
    return x < low ? low : x > high ? high : x;
}

double tess_safe_exp(double x)
{
    return exp(clamp(x, -largest_exponent, largest_exponent));
}

double tess_kl_estimate(tess_kl_kind kind, double d, double *slope)
{
    double held = clamp(d, -largest_exponent, largest_exponent);
    double open = fabs(d) < largest_exponent; /* derivative of the clamp */
    switch (kind) {
    case TESS_KL_K1:
        *slope = 1;
        return d;
    case TESS_KL_K2:
        *slope = d;
        return d * d / 2;
    case TESS_KL_K3:
        break;
    }
    double excess = expm1(-held), k3 = excess + held; /* expm1 keeps the precision of e^x - 1 near d = 0 */
    *slope = k3 >= largest_k3 ? 0 : -excess * open;
    return k3 > largest_k3 ? largest_k3 : k3 < 0 ? 0 : k3; /* rounding may leave -1e-17 */
}

void tess_kl_controller_update(tess_kl_controller *controller, double kl, int64_t n)
{
    double error = clamp(kl / controller->target - 1, -0.2, 0.2);
    controller->beta *= 1 + error * (double)n / controller->horizon;
}
