/* The published switch of DDIO by its names; programs include it inside extern "C". Nothing is
 * switched here: ddio_off() says once, on standard error, what DDIO comes to on this computer
 * (gpm_persist_begin()). */
#pragma once

#ifdef __cplusplus
extern "C" {
#endif
void perdure_ddio_on(void);
void perdure_ddio_off(void);
static inline void ddio_on(void) { perdure_ddio_on(); }
static inline void ddio_off(void) { perdure_ddio_off(); }
#ifdef __cplusplus
}
#endif
