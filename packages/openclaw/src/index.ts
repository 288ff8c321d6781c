/** An OpenClaw plugin: the provider `instar` and the command `/feedback`. */
import { feedbackCommand } from './feedback.ts'
import type { Host } from './host.ts'
import { createLabels } from './labels.ts'
import { createProvider } from './provider.ts'
import { settingsOf } from './settings.ts'

export { OPENCLAW_RELEASE } from './host.ts'

export default {
  id: 'instar',
  name: 'Instar',
  description: 'Model provider for an Instar gateway, and the command /feedback, on which the model is trained.',
  register(api: Host): void {
    const settings = settingsOf(api.pluginConfig)
    const labels = createLabels()
    api.registerProvider(createProvider(settings, labels))
    api.registerCommand(feedbackCommand(settings, labels))
    api.on('before_prompt_build', (_event, { sessionId, trigger }) => labels.runStarted(sessionId, trigger))
  },
}
