// github.com/openai/openai-go, Chat Completions.
package main

import (
	"context"

	"instar.test/clients/said"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/shared"
)

var client = openai.NewClient(
	option.WithBaseURL(said.Base+"/v1"), option.WithAPIKey(said.Key), option.WithMaxRetries(0))

func answer(messages []openai.ChatCompletionMessageParamUnion) openai.ChatCompletion {
	asking := openai.ChatCompletionNewParams{
		Model:    "policy",
		Messages: messages,
		Tools: []openai.ChatCompletionToolUnionParam{
			openai.ChatCompletionFunctionTool(shared.FunctionDefinitionParam{Name: "read", Parameters: said.Schema}),
		},
	}
	if !said.Stream {
		completion, err := client.Chat.Completions.New(context.Background(), asking)
		said.Must(err)
		return *completion
	}
	stream := client.Chat.Completions.NewStreaming(context.Background(), asking)
	var whole openai.ChatCompletionAccumulator
	for stream.Next() {
		if !whole.AddChunk(stream.Current()) {
			panic("a chunk that does not fit the ones before: " + stream.Current().RawJSON())
		}
	}
	said.Must(stream.Err())
	return whole.ChatCompletion
}

func main() {
	var messages []openai.ChatCompletionMessageParamUnion
	for _, words := range said.Users {
		messages = append(messages, openai.UserMessage(words))
		for {
			completion := answer(messages)
			said.Told.IDs = append(said.Told.IDs, completion.ID)
			message := completion.Choices[0].Message
			messages = append(messages, message.ToParam())
			if len(message.ToolCalls) == 0 {
				said.Told.Said = append(said.Told.Said, message.Content)
				break
			}
			for _, call := range message.ToolCalls {
				messages = append(messages, openai.ToolMessage(said.Read(call.Function.Arguments), call.ID))
			}
		}
	}
	said.Tell()
}
