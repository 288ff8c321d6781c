/** Opens the HTTP engine of the settings with the tokenizer of its model. */
import { engineAddress, PROTOCOLS, startRemote, textModel, type Remote, type RemoteOptions } from '@instar/engine'
import { InstarError } from '@instar/events'
import { isNeutral, openTokenizer } from '@instar/policy'
import type { Settings } from '@instar/process'

export type RemoteSettings = Pick<
  Settings,
  'engine' | 'engineKey' | 'engineModel' | 'adapters' | 'model' | 'modelNamed'
> &
  Partial<Pick<Settings, 'engineAccepts'>>

export const isRemote = ({ engine }: Pick<Settings, 'engine'>): boolean => engine !== 'embedded'

/** Whether the engine reports token ids. Only then its turns are trainable. */
export const givesIds = ({ engine }: Pick<Settings, 'engine'>): boolean => PROTOCOLS[engineAddress(engine).kind].ids

/** Throws the errors of `startRemote`, and `bad_request` if no tokenizer is set. */
export const openRemote = async (
  settings: RemoteSettings,
  options: Pick<RemoteOptions, 'logLine' | 'signal' | 'startMs'>,
): Promise<Remote> => {
  const { engine, engineKey, engineModel, adapters, model, modelNamed, engineAccepts: accepts = [] } = settings
  if (givesIds(settings) && !modelNamed)
    throw new InstarError(
      'bad_request',
      `INSTAR_ENGINE=${engine} needs INSTAR_MODEL: the folder of the model that is served there. Its tokenizer and chat template are read; weights need not be in it.`,
      { field: 'INSTAR_MODEL' },
    )
  const spoken = givesIds(settings) ? await openTokenizer(model) : textModel(engineModel ?? 'policy')
  return startRemote({
    engine,
    model: spoken,
    adapters,
    isNeutral,
    key: engineKey,
    servedName: engineModel,
    accepts,
    ...options,
  })
}
