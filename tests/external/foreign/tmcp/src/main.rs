//! A server with tmcp's own groups, registered with its `ToolSet`. It knows nothing of Toolfold.

use async_trait::async_trait;
use tmcp::{
    Arguments, GroupConfig, Result, Server, ServerCtx, ServerHandler, ToolSet, Visibility,
    schema::{
        CallToolResponse, CallToolResult, ClientCapabilities, Cursor, Implementation, InitializeResult, ListToolsResult,
        ProtocolVersion, TaskMetadata, Tool, ToolSchema,
    },
};

struct Desk {
    tools: ToolSet,
}

impl Desk {
    fn new() -> Result<Self> {
        let desk = Self { tools: ToolSet::default() };
        desk.group("finance", None, "Look at the market.")?;
        desk.group("files", None, "Read notes.")?;
        desk.group("files.edit", Some("files"), "Change notes.")?;
        desk.group("sandbox", None, "Rehearse orders.")?;
        desk.group("live", None, "Execute orders.")?;
        desk.tools.register_exclusion(&["sandbox", "live"])?;
        desk.tool("status", Visibility::Always, "Say that the server is up.", &[])?;
        desk.tool_in("finance", "analyse", "Analyse the market for a symbol.", &["symbol"])?;
        desk.tool_in("finance", "convert", "Convert an amount.", &["amount"])?;
        desk.tool_in("files", "read_note", "Read a note.", &["name"])?;
        desk.tool_in("files.edit", "write_note", "Write a note.", &["name", "text"])?;
        desk.tool_in("sandbox", "rehearse", "Rehearse an order.", &["order"])?;
        desk.tool_in("live", "execute", "Execute an order.", &["order"])?;
        Ok(desk)
    }

    fn group(&self, name: &str, parent: Option<&str>, description: &str) -> Result<()> {
        self.tools.register_group(GroupConfig {
            name: name.to_string(),
            description: description.to_string(),
            parent: parent.map(str::to_string),
            on_activate: None,
            on_deactivate: None,
            show_deactivator: true,
        })
    }

    fn tool_in(&self, group: &str, base: &str, description: &str, arguments: &[&str]) -> Result<()> {
        let name = ToolSet::qualified_name(group, base);
        self.tool(&name, Visibility::Group(group.to_string()), description, arguments)
    }

    fn tool(&self, name: &str, visibility: Visibility, description: &str, arguments: &[&str]) -> Result<()> {
        let mut schema = ToolSchema::default();
        for argument in arguments {
            schema = schema.with_required_property::<String>(*argument, "A text.");
        }
        let tool = Tool::new(name, schema).with_description(description);
        let text = format!("{name} was called");
        self.tools.register_with_visibility(name, tool, visibility, move |_ctx, _arguments| {
            let text = text.clone();
            Box::pin(async move { Ok(CallToolResult::new().with_text_content(text)) })
        })
    }
}

#[async_trait]
impl ServerHandler for Desk {
    async fn initialize(
        &self,
        _ctx: &ServerCtx,
        _version: ProtocolVersion,
        _capabilities: ClientCapabilities,
        _client: Implementation,
    ) -> Result<InitializeResult> {
        Ok(InitializeResult::new("tmcp-groups").with_version("1.0.0").with_tools(Some(true)))
    }

    async fn list_tools(&self, _ctx: &ServerCtx, cursor: Option<Cursor>) -> Result<ListToolsResult> {
        self.tools.list_tools(cursor)
    }

    async fn call_tool(
        &self,
        ctx: &ServerCtx,
        name: String,
        arguments: Option<Arguments>,
        _task: Option<TaskMetadata>,
    ) -> Result<CallToolResponse> {
        self.tools.call_tool(ctx, &name, arguments).await.map(Into::into)
    }
}

fn main() -> Result<()> {
    Desk::new()?;
    Server::new(|| Desk::new().expect("the groups were registered once before")).serve_stdio_blocking()
}
