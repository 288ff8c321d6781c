/** The folds that have checkpoints. */
import { gatewayFold } from '@instar/gateway/stored-fold'
import type { StoredFold } from '@instar/log'
import { publisherFold } from '@instar/publisher'
import { scorerFold } from '@instar/scorer'
import { auditFold, trainerFold } from '@instar/trainer'

/** Of services, which start from them. */
const OF_SERVICES: readonly StoredFold[] = [scorerFold, trainerFold, publisherFold, gatewayFold]
export const CHECKPOINTED: readonly StoredFold[] = [...OF_SERVICES, auditFold]

/** Those that `instar checkpoint` writes; without names those of services, since the audit's costs one more fold and the largest file. */
export const foldsNamed = (names: readonly string[]): readonly StoredFold[] =>
  names.length === 0 ? OF_SERVICES : CHECKPOINTED.filter(({ service }) => names.includes(service))
