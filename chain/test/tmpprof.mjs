import { compile } from "./compile.mjs"; import { start } from "./node.mjs";
const h = compile("test/Machines.sol","Machines"); const node = await start();
const [from] = await node.rpc("eth_accounts");
const sent = await node.rpc("eth_sendTransaction",{from,data:h.code,gas:"0x3b9aca0"}); let r=null; while(!r) r=await node.rpc("eth_getTransactionReceipt",sent);
const word=(n)=>n.toString(16).padStart(64,"0"); const u16=(n)=>n.toString(16).padStart(4,"0");
async function gas(prog,reps){ const p=prog.repeat(reps); const inputs="0123456701234567012345670123456f".repeat(64);
 const hex=u16(64)+u16(1)+u16(1).repeat(5)+inputs+"00000005".repeat(5)+p;
 const data=`0x${h.selectors.machine}${word(32)}${word(hex.length/2)}${hex.padEnd(Math.ceil(hex.length/64)*64,"0")}`;
 const a=await node.rpc("eth_call",{from,to:r.contractAddress,data,gas:"0x3b9aca00"},"latest"); return Number(BigInt("0x"+a.slice(66,130))); }
const t=u16(100),a=u16(1),b=u16(2);
const cases={mul1:"0a"+t+a+b+"00"+u16(1),mul2:"0a"+t+a+b+"00"+u16(2),scale1:"09"+t+a+u16(1)+"00000007",scale1s:"09"+t+a+u16(0x8001)+"03",scale8s:"09"+t+a+u16(0x8008)+"03".repeat(8),
 sum_1lin:"08"+t+u16(1)+u16(0)+u16(0)+a+u16(0x8001)+"03", sum_2lin:"08"+t+u16(2)+u16(0)+u16(0)+(a+u16(0x8001)+"03").repeat(2), sum_run8s:"08"+t+u16(1)+u16(0)+u16(0)+a+u16(0x8008)+"03".repeat(8), sum_run8:"08"+t+u16(1)+u16(0)+u16(0)+a+u16(8)+"00000003".repeat(8),
 sum_1prod:"08"+t+u16(0)+u16(1)+u16(0)+a+b,sum_2prod:"08"+t+u16(0)+u16(2)+u16(0)+(a+b).repeat(2),sum_run8p:"08"+t+u16(0)+u16(0)+u16(1)+a+b+u16(8),
 select:"05"+t+a+u16(10)+"00"+u16(0)+"00"+u16(7)+u16(0), word:"06"+t+"03"+u16(0), eq1:"07"+t+"01"+a+b, eq4:"07"+t+"04"+(a+b).repeat(4), table3:"02"+t+"03"+a.repeat(3), table5:"02"+t+"05"+a.repeat(5), copy8:"04"+t+u16(8)+a.repeat(8), prefix8:"03"+t+u16(8)+a.repeat(8)};
for (const [n,p] of Object.entries(cases)) console.log(n, ((await gas(p,110))-(await gas(p,10)))/100);
node.stop();
