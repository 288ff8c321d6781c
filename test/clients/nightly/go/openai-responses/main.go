// github.com/openai/openai-go, Responses: each request names the one before.
package main

import (
	"context"

	"instar.test/clients/said"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"
)

var client = openai.NewClient(
	option.WithBaseURL(said.Base+"/v1"), option.WithAPIKey(said.Key), option.WithMaxRetries(0))

func answer(items responses.ResponseInputParam, last string) responses.Response {
	asking := responses.ResponseNewParams{
		Model: "policy",
		Input: responses.ResponseNewParamsInputUnion{OfInputItemList: items},
		Tools: []responses.ToolUnionParam{
			{OfFunction: &responses.FunctionToolParam{Name: "read", Parameters: said.Schema, Strict: openai.Bool(false)}},
		},
	}
	if last != "" {
		asking.PreviousResponseID = openai.String(last)
	}
	if !said.Stream {
		response, err := client.Responses.New(context.Background(), asking)
		said.Must(err)
		return *response
	}
	stream := client.Responses.NewStreaming(context.Background(), asking)
	var whole responses.Response
	for stream.Next() {
		if event := stream.Current(); event.Type == "response.completed" {
			whole = event.AsResponseCompleted().Response
		}
	}
	said.Must(stream.Err())
	return whole
}

func main() {
	last := ""
	for _, words := range said.Users {
		items := responses.ResponseInputParam{
			responses.ResponseInputItemParamOfMessage(words, responses.EasyInputMessageRoleUser),
		}
		for {
			response := answer(items, last)
			last = response.ID
			said.Told.IDs = append(said.Told.IDs, last)
			items = nil
			for _, item := range response.Output {
				if item.Type != "function_call" {
					continue
				}
				call := item.AsFunctionCall()
				output := responses.ResponseInputItemParamOfFunctionCallOutput(said.Read(call.Arguments))
				output.OfFunctionCallOutput.CallID = openai.String(call.CallID)
				items = append(items, output)
			}
			if len(items) == 0 {
				said.Told.Said = append(said.Told.Said, response.OutputText())
				break
			}
		}
	}
	said.Tell()
}
