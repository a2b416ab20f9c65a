// A server on the official Go SDK whose tools are added and removed as groups are switched on and off. It knows nothing
// of Toolfold.
package main

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"os"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

type nothing struct{}

type order struct {
	Order string `json:"order" jsonschema:"what to do"`
}

type note struct {
	Name string `json:"name" jsonschema:"which note"`
}

type text struct {
	Name string `json:"name" jsonschema:"which note"`
	Text string `json:"text" jsonschema:"what it shall say"`
}

type symbol struct {
	Symbol string `json:"symbol" jsonschema:"of which share"`
}

type amount struct {
	Amount float64 `json:"amount" jsonschema:"how much"`
	Rate   float64 `json:"rate" jsonschema:"what one is worth"`
}

// A group is its tools: how to add them, and the names by which they are removed. What is inside goes with it.
type group struct {
	names []string
	add   func(*mcp.Server)
	rival string
}

type desk struct {
	server *mcp.Server
	groups map[string]group
}

// tool adds a tool that answers with a text.
func tool[In any](server *mcp.Server, name, description string, answer func(In) string) {
	mcp.AddTool(server, &mcp.Tool{Name: name, Description: description},
		func(_ context.Context, _ *mcp.CallToolRequest, input In) (*mcp.CallToolResult, any, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: answer(input)}}}, nil, nil
		})
}

// controls adds the two tools that switch a group on and off.
func (d *desk) controls(name string) {
	tool(d.server, "activate_"+name, "Switch on the group "+name+".", func(nothing) string { return d.activate(name) })
	tool(d.server, "deactivate_"+name, "Switch off the group "+name+".", func(nothing) string { return d.deactivate(name) })
}

func (d *desk) activate(name string) string {
	if rival := d.groups[name].rival; rival != "" {
		d.server.RemoveTools(d.groups[rival].names...)
	}
	d.groups[name].add(d.server)
	return name + " is on"
}

func (d *desk) deactivate(name string) string {
	d.server.RemoveTools(d.groups[name].names...)
	return name + " is off"
}

func newDesk() *desk {
	server := mcp.NewServer(&mcp.Implementation{Name: "go-groups", Version: "1.0.0"}, nil)
	d := &desk{server: server}
	d.groups = map[string]group{
		"finance": {names: []string{"analyse", "convert"}, add: func(s *mcp.Server) {
			tool(s, "analyse", "Analyse the market for a symbol.", func(in symbol) string { return in.Symbol + ": steady" })
			tool(s, "convert", "Convert an amount.", func(in amount) string { return fmt.Sprint(in.Amount * in.Rate) })
		}},
		"files": {names: []string{"read_note", "activate_edit", "deactivate_edit", "write_note"}, add: func(s *mcp.Server) {
			tool(s, "read_note", "Read a note.", func(in note) string { return "the note " + in.Name })
			d.controls("edit")
		}},
		"edit": {names: []string{"write_note"}, add: func(s *mcp.Server) {
			tool(s, "write_note", "Write a note.", func(in text) string { return "wrote " + in.Text + " to " + in.Name })
		}},
		"sandbox": {names: []string{"rehearse"}, rival: "live", add: func(s *mcp.Server) {
			tool(s, "rehearse", "Rehearse an order.", func(in order) string { return "rehearsed " + in.Order })
		}},
		"live": {names: []string{"execute"}, rival: "sandbox", add: func(s *mcp.Server) {
			tool(s, "execute", "Execute an order.", func(in order) string { return "executed " + in.Order })
		}},
	}
	tool(server, "status", "Say that the server is up.", func(nothing) string { return "up" })
	for _, name := range []string{"finance", "files", "sandbox", "live"} {
		d.controls(name)
	}
	return d
}

// main serves over stdio, or over HTTP if it is given a port: each session has a desk of its own there.
func main() {
	if len(os.Args) > 1 {
		handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return newDesk().server }, nil)
		log.Fatal(http.ListenAndServe("127.0.0.1:"+os.Args[1], handler))
	}
	if err := newDesk().server.Run(context.Background(), &mcp.StdioTransport{}); err != nil {
		log.Fatal(err)
	}
}
