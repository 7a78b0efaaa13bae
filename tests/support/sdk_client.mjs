// Plays a little with an MCP server through the TypeScript SDK and prints what it saw as JSON:
//   node sdk_client.mjs NODE_MODULES stdio COMMAND ARGS... | http URL
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [modules, kind, ...rest] = process.argv.slice(2);
const sdk = (name) => import(pathToFileURL(`${modules}/@modelcontextprotocol/sdk/dist/esm/client/${name}.js`));
const { Client } = await sdk("index");
const client = new Client({ name: "check", version: "1" });
if (kind === "stdio") {
  const { StdioClientTransport } = await sdk("stdio");
  await client.connect(new StdioClientTransport({ command: rest[0], args: rest.slice(1), env: process.env }));
} else {
  const { StreamableHTTPClientTransport } = await sdk("streamableHttp");
  await client.connect(new StreamableHTTPClientTransport(new URL(rest[0])));
}
const seen = { server: client.getServerVersion(), instructions: client.getInstructions() };
seen.tools = (await client.listTools()).tools.map((tool) => tool.name);
seen.setup = await client.callTool({ name: "setup", arguments: { name: "board", board_size: 3, seed: 5 } });
seen.move = await client.callTool({ name: "move", arguments: { direction: "up" } });
seen.evaluate = await client.callTool({ name: "evaluate", arguments: { name: "max_number", arguments: { target: 8 } } });
seen.resource = await client.readResource({ uri: "file:///evaluate/functions" });
seen.unknown = await client.callTool({ name: "nothing", arguments: {} }).catch((error) => error.code);
await client.ping();
await client.close();
console.log(JSON.stringify(seen));
