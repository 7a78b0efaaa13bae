BEGIN TRANSACTION;
CREATE TABLE machines (
    name TEXT PRIMARY KEY,
    provider TEXT NOT NULL,
    realm TEXT NOT NULL,
    pod TEXT,
    run TEXT,
    workspace TEXT,
    machine TEXT NOT NULL,
    holder TEXT,
    state TEXT NOT NULL,
    hourly REAL,
    currency TEXT NOT NULL,
    created REAL NOT NULL,
    updated REAL NOT NULL,
    ended REAL,
    billed REAL,
    why TEXT,
    order_json TEXT NOT NULL
, seen REAL, last_json TEXT, until REAL, account TEXT, unasked INTEGER) WITHOUT ROWID;
INSERT INTO "machines" VALUES('hudtui-2048-greedy-dft6wz8y','prime','http://127.0.0.1:35311','simpod00000000000000000000000001','2048-greedy-27pp','@WORK@','@MACHINE@',NULL,'ended',0.08,'USD',1.7953690665449748039e+09,1.79536913246874046327e+09,1.79536912887023091317e+09,0.001338,'run 2048-greedy-27pp finished','{"offer": {"provider": "prime", "id": "datacrunch/cpu-8/FIN-01/CPU_NODE/PCIe/1/on-demand", "gpu_type": "CPU_NODE", "gpu_count": 0, "gpu_memory": null, "cloud": "datacrunch", "cloud_id": "cpu-8", "socket": "PCIe", "region": "eu_north", "country": "FI", "data_center": "FIN-01", "security": "secure_cloud", "spot": false, "stock": "Available", "disk_gb": 40.0, "vcpus": 8, "memory_gb": 16.0, "setup_minutes": null, "short": "8168cd", "price": {"hourly": 0.08, "currency": "USD", "disk": 0.0, "variable": false, "prepaid_hours": 0.0, "stated": true}, "gpu_hour": 0.08, "images": ["ubuntu_22_cuda_12"]}, "image": null, "disk_gb": null, "max_hours": null}',1.79536907202917480471e+09,'{"provider":"prime","id":"simpod00000000000000000000000001","name":"hudtui-2048-greedy-dft6wz8y","stage":"ready","status":"ACTIVE/FINISHED","gpu_type":"CPU_NODE","gpu_count":0,"hourly":0.08,"currency":"USD","created":1795369066.656486,"terminated":null,"billed":null,"estimated":false,"addresses":[{"user":"root","host":"127.0.0.1","port":43769}],"cloud":"datacrunch","region":"","spot":false,"progress":100,"failure":null,"team":null}',1.79545636654497480387e+09,NULL,NULL);
INSERT INTO "machines" VALUES('hudtui-old-d7tc62vc','prime','http://127.0.0.1:35311','simpod00000000000000000000000002',NULL,'@WORK@','@MACHINE@',NULL,'ready',0.65,'USD',1.79536913377213931076e+09,1.79536914202581953997e+09,NULL,NULL,NULL,'{"offer": {"provider": "prime", "id": "datacrunch/1A100.22V-spot/FIN-01/A100_80GB/SXM4/1/spot", "gpu_type": "A100_80GB", "gpu_count": 1, "gpu_memory": 80.0, "cloud": "datacrunch", "cloud_id": "1A100.22V-spot", "socket": "SXM4", "region": "eu_north", "country": "FI", "data_center": "FIN-01", "security": "secure_cloud", "spot": true, "stock": "Medium", "disk_gb": 100.0, "vcpus": 22, "memory_gb": 120.0, "setup_minutes": null, "short": "84a431", "price": {"hourly": 0.65, "currency": "USD", "disk": 0.0, "variable": false, "prepaid_hours": 0.0, "stated": true}, "gpu_hour": 0.65, "images": ["ubuntu_22_cuda_12", "cuda_12_4_pytorch_2_5", "cuda_12_6_pytorch_2_7", "prime_rl"]}, "image": null, "disk_gb": null, "max_hours": null}',1.79536914290734100343e+09,'{"provider":"prime","id":"simpod00000000000000000000000002","name":"hudtui-old-d7tc62vc","stage":"ready","status":"ACTIVE/FINISHED","gpu_type":"A100_80GB","gpu_count":1,"hourly":0.65,"currency":"USD","created":1795369133.871695,"terminated":null,"billed":null,"estimated":false,"addresses":[{"user":"root","host":"127.0.0.1","port":46407}],"cloud":"datacrunch","region":"","spot":true,"progress":100,"failure":null,"team":null}',1.79541067223367786405e+09,'Sim User',NULL);
CREATE INDEX machines_by_state ON machines (state, created);
COMMIT;
PRAGMA user_version = 2;
