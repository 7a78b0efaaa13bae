from support import servers

serve_2048 = servers.serve_2048
