import { Readable } from 'node:stream'
import { createJudges, judgeNamed, judgeOrder, onlyJudge, type scorerConfig } from '@instar/scorer'
import { tokenFor } from '../admin-client.ts'
import { command, UsageError } from '../command.ts'
import { gatewayUrl } from '../config.ts'
import { learningSettings } from '../learning-settings.ts'
import { judgeCases, MAX_CASE_BYTES, type JudgeReport } from '../judging.ts'

type ScorerConfig = ReturnType<typeof scorerConfig.parse>

/** Throws `UsageError`. */
const parseJudge = (name: string | undefined, configured: ScorerConfig): ScorerConfig => {
  if (name === undefined) return configured
  const judge = judgeNamed(name)
  if (!judge) throw new UsageError(`--judge ${name}: must be reactions, llm or self`)
  const config = onlyJudge(configured, judge)
  if (judge === 'llm' && !config.llm)
    throw new UsageError('--judge llm needs INSTAR_JUDGE_URL, or judge.llm.url of the settings file')
  return config
}

export default command('judge', {
  usage: '[--judge reactions|llm|self] < CASES',
  help: `
Judges cases from standard input as the scorer judges turns. A case is one line of JSON:
  {"request": "…", "answer": "…", "next": {"user": "…", "tools": ["…" or {"name": "…", "content": "…"}]}}
next is the next state of the answer: the user's next message and tool results; either may be missing. Blank lines are
skipped. Prints one line for each case, in the same order: 1, -1 or ? (no verdict), and the hint.

  --judge J  reactions, llm or self (default: the judge in force, see instar settings). self: the base weights of the
             gateway that runs at INSTAR_HOST and INSTAR_PORT

--json: each line is {"value": 1 | -1 | null, "hint": string | null, "judge": string | null}; value null: no verdict. A
line has at most ${MAX_CASE_BYTES >> 20} MiB. The error of an invalid line names its number and follows the verdicts on the lines before.
Exit code 1 for an invalid line, and if the judge failed on a case`,
  options: { judge: { type: 'string' } },
  async run({ config, values, json, out, err, stop, input }) {
    const settings = parseJudge(values.judge, learningSettings(config).scorer)
    // A judge waits for a gateway that does not answer or refuses it; one that is not to be asked ends the command.
    if (judgeOrder(settings).join() === 'self') await tokenFor(config)
    const gateway = async () => ({
      url: gatewayUrl(config),
      key: (await tokenFor(config)) ?? config.key ?? '',
    })
    const judges = createJudges(settings, { now: () => Date.now(), logLine: (line) => err(`${line}\n`), gateway })
    const report: JudgeReport = { cases: 0, failed: 0 }
    for await (const verdict of judgeCases(judges, input ?? Readable.from([]), settings.concurrency, stop, report))
      out(
        json
          ? `${JSON.stringify(verdict)}\n`
          : `${verdict.value ?? '?'}${verdict.hint === null ? '' : `  ${verdict.hint}`}\n`,
      )
    if (report.failed > 0) err(`the judge failed on ${report.failed} of ${report.cases} cases\n`)
    return report.failed === 0
  },
})
