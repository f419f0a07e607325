//! `tessera chain`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::price::Price;

#[derive(Debug, Args)]
pub struct ChainArgs {
    #[command(subcommand)]
    pub command: ChainCommand,
}

#[derive(Debug, Subcommand)]
pub enum ChainCommand {
    /// Make the plan of a key, whose digest facts name
    Plan(CheckedPlanArgs),
    /// Write the program of a plan, which is stored on a chain once for all its proofs
    Register(RegisterArgs),
    /// Write what contracts are sent to verify a proof
    Pack(PackArgs),
    /// Say what verifying a proof in contracts takes: bytes and gas, call by call
    Estimate(EstimateArgs),
}

#[derive(Debug, Args)]
pub struct PlanArgs {
    /// Model key
    #[arg(long, value_name = "FILE")]
    pub key: PathBuf,
    /// Tokens of the text, prompt included; a plan is for all lengths with as many blocks of 16 rows
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=1 << 20))]
    pub length: u32,
    /// Tokens of the output
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    pub tokens: u32,
}

#[derive(Debug, Args)]
pub struct CheckedPlanArgs {
    #[command(flatten)]
    pub plan: PlanArgs,
    /// Evaluate the plan and the verifier's own wiring at random points, 3 if no number is given, and fail if they differ
    #[arg(long, value_name = "POINTS", num_args = 0..=1, default_missing_value = "3",
        value_parser = clap::value_parser!(u16).range(1..))]
    pub check: Option<u16>,
}

#[derive(Debug, Args)]
pub struct RegisterArgs {
    #[command(flatten)]
    pub plan: PlanArgs,
    /// File to write, in JSON; cli/drivers/submit.mjs reads it
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
}

#[derive(Debug, Args)]
pub struct PackArgs {
    /// Proof
    pub proof: PathBuf,
    /// Model key
    #[arg(long, value_name = "FILE")]
    pub key: PathBuf,
    /// File to write, in JSON; cli/drivers/submit.mjs reads it
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
}

#[derive(Debug, Args)]
pub struct EstimateArgs {
    /// Proof
    pub proof: PathBuf,
    /// Model key
    #[arg(long, value_name = "FILE")]
    pub key: PathBuf,
    /// Price of a unit of gas in gwei, such as 0.8: shows what all calls cost in ether, gas times this price
    #[arg(long, value_name = "GWEI")]
    pub gas_price: Option<Price>,
    /// Price in gwei of a byte of calldata on chains that charge for data beside gas, as rollups do. All calls cost
    /// gas x gas price + bytes x data price
    #[arg(long, value_name = "GWEI", requires = "gas_price")]
    pub data_price: Option<Price>,
}
