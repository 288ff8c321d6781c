// Package said has one conversation for every library: two parallel calls, an answer, words of displeasure, a call
// again, an answer, a farewell. The first argument: whole or stream. Tell prints one JSON object: what was said, what
// the tool was asked, the ids of the answers as the library tells them.
package said

import (
	"encoding/json"
	"fmt"
	"os"
)

var (
	Base   = os.Getenv("BASE")
	Key    = os.Getenv("KEY")
	Stream = len(os.Args) > 1 && os.Args[1] == "stream"
	Users  = []string{"Read both files.", "That was wrong.", "Good bye."}
	Schema = map[string]any{
		"type": "object",
		"properties": map[string]any{
			"path": map[string]any{"type": "string"}, "lines": map[string]any{"type": "number"},
		},
		"required":             []string{"path", "lines"},
		"additionalProperties": false,
	}
)

// Asking is what the tool is asked.
type Asking struct {
	Path  string  `json:"path"`
	Lines float64 `json:"lines"`
}

// Telling is what Tell prints.
type Telling struct {
	Said  []string `json:"said"`
	Asked []Asking `json:"asked"`
	IDs   []string `json:"ids"`
}

// Told is filled as the conversation goes on.
var Told Telling

var files = map[string]string{"a.txt": "It is red.", "b.txt": "It is blue.", "c.txt": "It is green."}

// Read is the tool; arguments are the JSON that the model wrote.
func Read(arguments string) string {
	var asking Asking
	Must(json.Unmarshal([]byte(arguments), &asking))
	Told.Asked = append(Told.Asked, asking)
	return files[asking.Path]
}

// Must ends the program with the error on stderr, if there is one.
func Must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// Tell prints what was told.
func Tell() {
	text, err := json.Marshal(Told)
	Must(err)
	fmt.Printf("\n%s\n", text)
}
