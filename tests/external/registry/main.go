// Checks the server.json on standard input as the MCP registry does when a server is published, without its network:
// mcp-publisher validate sends the file to the registry, which calls this function. Exits with 1 if anything is wrong.
package main

import (
	"encoding/json"
	"log"
	"os"

	"github.com/modelcontextprotocol/registry/internal/validators"
	apiv0 "github.com/modelcontextprotocol/registry/pkg/api/v0"
)

func main() {
	var server apiv0.ServerJSON
	if err := json.NewDecoder(os.Stdin).Decode(&server); err != nil {
		log.Fatal(err)
	}
	result := validators.ValidateServerJSON(&server, validators.ValidationAll)
	if err := json.NewEncoder(os.Stdout).Encode(result.Issues); err != nil || !result.Valid {
		os.Exit(1)
	}
}
