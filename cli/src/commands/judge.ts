import { Readable } from 'node:stream'
import { createJudges, judgeNamed, scorerConfig } from '@instar/scorer'
import { command, UsageError } from '../command.ts'
import { judgeCases, LONGEST_CASE, type JudgeReport } from '../judging.ts'

type ScorerConfig = ReturnType<typeof scorerConfig.parse>

const configOf = (name: string | undefined, llm: Parameters<typeof scorerConfig.parse>[0]): ScorerConfig => {
  if (name === undefined) return scorerConfig.parse(llm)
  const judge = judgeNamed(name)
  if (!judge) throw new UsageError(`--judge ${name}: llm or reactions is expected`)
  const config = scorerConfig.parse({ ...(llm as object), judges: [judge] })
  if (judge === 'llm' && !config.llm) throw new UsageError('--judge llm: INSTAR_JUDGE_URL is not set')
  return config
}

export default command('judge', {
  usage: '[--judge reactions|llm] < CASES',
  help: `
Judges cases from standard input as the scorer judges turns. A case is one line of JSON:
  {"request": "…", "answer": "…", "next": {"user": "…", "tools": ["…" or {"name": "…", "content": "…"}]}}
next is what came after the answer: the person's next message and results of tools; either may be missing. Blank
lines are passed over. For each case one line goes to standard output, in the same order: 1, -1 or ?, and the hint.

  --judge J  reactions or llm (default: llm if INSTAR_JUDGE_URL is set, else reactions)

--json: each line is {"value": 1 | -1 | null, "hint": string | null, "judge": string | null}; null is no opinion.
A line is at most ${LONGEST_CASE >> 20} MiB; a bad line is told by its number, after the verdicts on the lines before it. Exit code 1:
a line is bad, or the judge failed on a case; 2: the command line is not understood.`,
  options: { judge: { type: 'string' } },
  async run({ config, values, json, out, err, stop, input }) {
    const settings = configOf(values.judge, config.judge === null ? {} : { llm: config.judge })
    const judges = createJudges(settings, { now: () => Date.now(), say: (line) => err(`${line}\n`) })
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
