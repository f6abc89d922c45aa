/* info.h - `gradwire info`: what is here and what is set. */
#ifndef GW_TOOLS_INFO_H
#define GW_TOOLS_INFO_H

/* argv[0] is the word "info".  0; 1: a setting cannot be used, or no interface; 2: wrong arguments. */
int info_main(int argc, char **argv);
#endif
