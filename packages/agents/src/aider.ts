/** aider. Between an answer and the next user message it inserts a user message about files or commits and an `Ok.`. */
import type { Agent } from './agent.ts'

export const aider: Agent = {
  name: 'aider',
  sentences: [
    /^(?:I updated the files\.|I am not sharing any files that you can edit yet\.)$/g,
    /^(?:I have \*added these files to the chat\*|Here are (?:summaries of some files|some READ ONLY files))[\s\S]*$/g,
    /(?<![^\n])(?:# \*SEARCH\/REPLACE block\* Rules:|To suggest changes to a file you MUST return )[\s\S]*$/g,
  ],
  scripted: {
    message:
      /^(?:I updated the files\.|I committed the changes with git hash|I switched to a new code base\.|I have \*added these files to the chat\*|I am not sharing any files that you can edit yet\.|Here are (?:summaries of some files|some READ ONLY files))/,
    answer: /^Ok[.,]/,
  },
}
