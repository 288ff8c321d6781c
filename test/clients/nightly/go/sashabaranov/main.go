// github.com/sashabaranov/go-openai, Chat Completions. It leaves a stream's deltas to whoever reads it.
package main

import (
	"context"
	"errors"
	"io"

	"instar.test/clients/said"

	"github.com/sashabaranov/go-openai"
)

var client = func() *openai.Client {
	config := openai.DefaultConfig(said.Key)
	config.BaseURL = said.Base + "/v1"
	return openai.NewClientWithConfig(config)
}()

func answer(messages []openai.ChatCompletionMessage) (id string, message openai.ChatCompletionMessage) {
	asking := openai.ChatCompletionRequest{
		Model:    "policy",
		Messages: messages,
		Tools: []openai.Tool{
			{Type: openai.ToolTypeFunction, Function: &openai.FunctionDefinition{Name: "read", Parameters: said.Schema}},
		},
	}
	if !said.Stream {
		completion, err := client.CreateChatCompletion(context.Background(), asking)
		said.Must(err)
		return completion.ID, completion.Choices[0].Message
	}
	stream, err := client.CreateChatCompletionStream(context.Background(), asking)
	said.Must(err)
	defer stream.Close()
	message.Role = openai.ChatMessageRoleAssistant
	for {
		chunk, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return id, message
		}
		said.Must(err)
		id = chunk.ID
		for _, choice := range chunk.Choices {
			message.Content += choice.Delta.Content
			message.ReasoningContent += choice.Delta.ReasoningContent
			for _, part := range choice.Delta.ToolCalls {
				if *part.Index == len(message.ToolCalls) {
					message.ToolCalls = append(message.ToolCalls, openai.ToolCall{ID: part.ID, Type: part.Type})
				}
				call := &message.ToolCalls[*part.Index].Function
				call.Name += part.Function.Name
				call.Arguments += part.Function.Arguments
			}
		}
	}
}

func main() {
	var messages []openai.ChatCompletionMessage
	for _, words := range said.Users {
		messages = append(messages, openai.ChatCompletionMessage{Role: openai.ChatMessageRoleUser, Content: words})
		for {
			id, message := answer(messages)
			said.Told.IDs = append(said.Told.IDs, id)
			messages = append(messages, message)
			if len(message.ToolCalls) == 0 {
				said.Told.Said = append(said.Told.Said, message.Content)
				break
			}
			for _, call := range message.ToolCalls {
				messages = append(messages, openai.ChatCompletionMessage{
					Role: openai.ChatMessageRoleTool, Content: said.Read(call.Function.Arguments), ToolCallID: call.ID,
				})
			}
		}
	}
	said.Tell()
}
