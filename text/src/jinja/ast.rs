//! Templates as trees.

use std::rc::Rc;

use super::text::Text;

/// The place of a variable; [`UNKNOWN`] before names are resolved.
pub type Slot = usize;
pub const UNKNOWN: Slot = usize::MAX;

/// A value that a template spells.
#[derive(Debug)]
pub enum Literal {
    None,
    Bool(bool),
    Int(i128),
    Float(f64),
    Text(Text),
}

#[derive(Debug)]
pub enum Expr {
    Const(Literal),
    Name(String, Slot),
    /// An attribute of a namespace, to be assigned to.
    Field(String, Slot, String),
    Tuple(Vec<Expr>),
    List(Vec<Expr>),
    Dict(Vec<(Expr, Expr)>),
    Slice([Option<Box<Expr>>; 3]),
    /// Test, value, and the value otherwise.
    Cond(Box<Expr>, Box<Expr>, Option<Box<Expr>>),
    Or(Box<Expr>, Box<Expr>),
    And(Box<Expr>, Box<Expr>),
    Not(Box<Expr>),
    Compare(Box<Expr>, Vec<(&'static str, Expr)>),
    Concat(Vec<Expr>),
    Binary(&'static str, Box<Expr>, Box<Expr>),
    Unary(&'static str, Box<Expr>),
    Attribute(Box<Expr>, String),
    Item(Box<Expr>, Box<Expr>),
    Call(Box<Expr>, Args),
    /// Without a value, it applies to a block.
    Filter(Option<Box<Expr>>, String, Args),
    Test(Box<Expr>, String, Args),
}

/// Arguments of a call.
#[derive(Debug, Default)]
pub struct Args {
    pub args: Vec<Expr>,
    pub named: Vec<(String, Expr)>,
    pub rest: Option<Box<Expr>>,
    pub rest_named: Option<Box<Expr>>,
}

#[derive(Debug)]
pub enum Stmt {
    Data(String),
    Print(Expr),
    Set(Expr, Expr),
    SetBlock {
        target: Expr,
        filter: Option<Expr>,
        body: Vec<Stmt>,
        frame: Frame,
    },
    For(Rc<For>),
    If(If),
    With {
        targets: Vec<Expr>,
        values: Vec<Expr>,
        body: Vec<Stmt>,
        frame: Frame,
    },
    Macro(Rc<Macro>),
    /// The block that a call gets as `caller`; without a call, `{% generation %}`.
    Call(Rc<Macro>, Option<Expr>),
    FilterBlock {
        filter: Expr,
        body: Vec<Stmt>,
        frame: Frame,
    },
    Break,
    Continue,
}

#[derive(Debug)]
pub struct If {
    pub test: Expr,
    pub body: Vec<Stmt>,
    pub elifs: Vec<If>,
    pub other: Vec<Stmt>,
}

#[derive(Debug)]
pub struct For {
    pub target: Expr,
    pub iter: Expr,
    pub test: Option<Expr>,
    pub recursive: bool,
    pub body: Vec<Stmt>,
    pub other: Vec<Stmt>,
    pub frame: Frame,
    pub test_frame: Frame,
    pub other_frame: Frame,
    /// Where the variable `loop` is, if the body uses it.
    pub loop_slot: Option<Slot>,
}

#[derive(Debug)]
pub struct Macro {
    /// `None` for the block of a call.
    pub name: Option<String>,
    pub slot: Slot,
    pub args: Vec<(String, Slot)>,
    /// Default values of the last arguments.
    pub defaults: Vec<Expr>,
    pub body: Vec<Stmt>,
    pub frame: Frame,
    pub caller: Option<Slot>,
    pub kwargs: Option<Slot>,
    pub varargs: Option<Slot>,
}

/// Variables of a block, in the order in which they are set where it begins.
#[derive(Debug, Default)]
pub struct Frame {
    pub loads: Vec<(Slot, Load)>,
}

/// Where the value of a variable comes from as its block begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Load {
    /// The block sets it.
    Parameter,
    /// A variable of the context.
    Resolve(String),
    /// A variable of an outer block.
    Alias(Slot),
    Missing,
}

/// A template that can be run.
#[derive(Debug)]
pub struct Template {
    pub body: Vec<Stmt>,
    pub frame: Frame,
}
