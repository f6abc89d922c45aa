/* rule.h - the rules of the protocol (R1 to R16 in transport/WIRE.md), each at the place that keeps it.
 *
 * GW_RULE(n) is the constant 1.  Built with -DGW_RULES, for `make sim-rules` alone, it is 0 for the rules that gw_rules_off
 * names, so that the simulator can show that it finds the lack of each. */
#ifndef GW_BASE_RULE_H
#define GW_BASE_RULE_H

#ifdef GW_RULES
#include <stdint.h>
/* weak: every file that keeps a rule brings it, and they all mean the same one */
__attribute__((weak)) uint32_t gw_rules_off;
#define GW_RULE(n) (!(gw_rules_off >> (n) & 1))
#else
#define GW_RULE(n) 1
#endif
#endif
