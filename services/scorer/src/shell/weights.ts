/** The weights of the reactions judge, read when they are first needed. */
import { readFileSync } from 'node:fs'
import { decodeModel, type ReactionModel } from '../core/reactions/model.ts'

let model: ReactionModel | undefined

export const reactionModel = (): ReactionModel =>
  (model ??= decodeModel(readFileSync(new URL('../../reactions/weights.bin', import.meta.url))))
