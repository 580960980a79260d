//! Methods that only forward a call.

/// Declares methods that call the method of the same name on another value, such as a field.
///
/// ```
/// struct Shelf(Vec<u8>);
/// impl Shelf {
///     tributary_core::forwarded! {
///         this => this.0;
///         fn len(&Self) -> usize;
///         fn push(&mut Self, value: u8);
///     }
/// }
/// let mut shelf = Shelf(Vec::new());
/// shelf.push(1);
/// assert_eq!(shelf.len(), 1);
/// ```
#[macro_export]
macro_rules! forwarded {
    (
        $this:ident => $target:expr;
        $($(#[$meta:meta])* $vis:vis fn $name:ident($of:ty $(, $argument:ident: $type:ty)*) $(-> $result:ty)?;)*
    ) => {
        $($(#[$meta])* $vis fn $name(self: $of $(, $argument: $type)*) $(-> $result)? {
            let $this = self;
            $target.$name($($argument),*)
        })*
    };
}
